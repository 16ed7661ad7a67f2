"""Vectors in FAISS: the one place that knows which index type is used.

Inner product over float16 codes: half the memory of float32 and, for unit vectors, the same ranking.
"""

import threading
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from indexer.errors import VectorError
from indexer.manifest import corrupt

_LARGEST = float(np.finfo(np.float16).max)


class _Threads(threading.local):
    is_set = False


class VectorWriter:
    """Gathers vectors in row order and writes one file."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._index = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)

    @property
    def count(self) -> int:
        """Vectors added so far."""
        return int(self._index.ntotal)

    def add(self, vectors: npt.NDArray[np.float32]) -> None:
        """Append float32 (n, dimension) vectors; raises VectorError if one cannot be stored or compared."""
        if vectors.ndim != 2 or vectors.shape[1] != self._dimension:
            raise VectorError(
                f"the embedder gave vectors of shape {vectors.shape}, not (n, {self._dimension}); check the model"
            )
        if not np.all(np.abs(vectors) <= _LARGEST):
            bad = int(np.argmin(np.all(np.abs(vectors) <= _LARGEST, axis=1)))
            raise VectorError(
                f"the embedder gave a NaN, infinite or huge value in vector {self.count + bad}; "
                "check the model, or try another precision"
            )
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def write(self, path: Path) -> None:
        """Write the file; raises OSError if it cannot be written."""
        try:
            faiss.write_index(self._index, str(path))
        except RuntimeError as error:  # FAISS reports a full disk as its own exception
            raise OSError(f"cannot write {path}: {' '.join(str(error).split())[:200]}") from error


class VectorReader:
    """Searches a published file, wholly in memory; concurrent searches are safe."""

    def __init__(self, path: Path) -> None:
        """Read a file whose checksum has been verified: FAISS must not be given hostile bytes.

        Raises:
            IndexCorrupt: it is not an index of the kind that `VectorWriter` makes.
        """
        try:
            self._index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise corrupt(path, "is not a readable vector index") from error
        if (
            not isinstance(self._index, faiss.IndexScalarQuantizer)
            or self._index.metric_type != faiss.METRIC_INNER_PRODUCT
        ):
            raise corrupt(path, "is a vector index of another kind")
        self._threads = _Threads()

    @property
    def count(self) -> int:
        """Vectors in the index."""
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._index.d)

    def search(self, vector: npt.NDArray[np.float32], k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Find the vectors with the largest inner product.

        Args:
            vector: float32 (dimension,).
            k: how many, at least 1.

        Returns:
            Scores float32 (n,), best first, and rows int64 (n,); n is k or the number of vectors if that is less.

        Raises:
            VectorError: the vector has another length, or is not finite.
        """
        if vector.shape != (self.dimension,):
            raise VectorError(f"a query vector has shape {vector.shape}, the index needs ({self.dimension},)")
        if not np.isfinite(vector).all():
            raise VectorError("a query vector has a NaN or infinite value; check the model")
        if not self._threads.is_set:
            # A pool of threads costs more than it gives for one query; OpenMP keeps this setting per thread.
            faiss.omp_set_num_threads(1)
            self._threads.is_set = True
        query = np.ascontiguousarray(vector[np.newaxis], dtype=np.float32)
        scores, rows = self._index.search(query, min(k, self.count))
        kept = rows[0] >= 0
        return scores[0][kept], rows[0][kept]
