"""Write vectors to a FAISS index, and search it through a memory map, with or without a filter.

Every index contains a store: the vectors as float16 codes in row order. Scores are always computed from the store, and
the next build copies unchanged vectors from it. A `flat` index is only a store. A `pq` index also has 4-bit codes, and
scans all of them to find candidates. An `ivf` index has 4-bit codes in lists, and scans only the lists near the query.
"""

import math
import threading
from pathlib import Path
from typing import Any

import faiss as partly_typed
import numpy as np
import numpy.typing as npt

from indexer.errors import VectorError
from indexer.generation.manifest import corrupt
from indexer.generation.rows import Rows, RowSet, ScoredRows

faiss: Any = partly_typed  # its type stubs are incomplete and partly wrong
Vectors = npt.NDArray[np.float32]
_METRIC = faiss.METRIC_INNER_PRODUCT
_MAX_FLOAT16 = float(np.finfo(np.float16).max)
_PAGE_BYTES = 4096

# Numbers of vectors from which `pq` and `ivf` are the fastest types; see "Index types" in docs/running.md.
_MIN_PQ_VECTORS = 2_000
_MIN_IVF_VECTORS = 131_072
# Parameters for training
_CODE_BITS = 4
_LISTS_PER_QUERY = 192
_TRAINING_VECTORS_PER_LIST = 40
_TRAINING_ROUNDS = 10
_MIN_TRAINING_VECTORS = 20_000
_VECTORS_PER_BLOCK = 16_384
_SEED = 1234
# Parameters for searching
_CANDIDATES_PER_HIT = 3
_MIN_CANDIDATES = 150
_CODES_PER_CALL = 1024
_CANDIDATE_MARGIN = 1.3
_MAX_ROWS_WITHOUT_SEARCH = 20_000  # scoring this many allowed rows takes as long as a search
# With a filter, more lists are scanned, because the lists nearest to the query may contain few allowed rows.
_FILTERED_LIST_SHARE = 0.25
_FILTERED_CANDIDATE_FACTOR = 3


class VectorWriter:
    """Collects vectors in row order, with 2 bytes of memory for each number, and writes them to one file."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        # one quantiser for every two dimensions has the best ratio of recall to scan time
        self._quantisers = dimension // 2 if dimension % 2 == 0 else dimension
        self._store = _new_store(dimension)

    @property
    def count(self) -> int:
        """Return the number of vectors added so far."""
        return int(self._store.ntotal)

    def add(self, vectors: Vectors) -> None:
        """Append vectors, float32 (n, dimension). Raises VectorError for a wrong shape, NaN or huge numbers."""
        if vectors.ndim != 2 or vectors.shape[1] != self._dimension:
            raise VectorError(
                f"the embedder returned vectors of shape {vectors.shape}, not (n, {self._dimension}); check the model"
            )
        are_good = np.all(np.abs(vectors) <= _MAX_FLOAT16, axis=1)
        if not are_good.all():
            raise VectorError(
                f"the embedder returned a NaN, infinite or huge value in vector {self.count + int(np.argmin(are_good))}"
                "; check the model, or try another precision"
            )
        self._store.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def read(self, rows: Rows) -> Vectors:
        """Return the vectors added at these rows, rounded to float16, as float32 (n, dimension)."""
        return self._store.reconstruct_batch(rows)  # type: ignore[no-any-return]

    def write(self, path: Path) -> None:
        """Write the vector index to a file. Equal vectors result in equal files. Raises OSError if it fails."""
        index = self._store
        if self.count >= _MIN_PQ_VECTORS:
            base = self._trained_pq() if self.count < _MIN_IVF_VECTORS else self._trained_ivf()
            index = faiss.IndexRefine(base, self._store)
            index.k_factor = _CANDIDATES_PER_HIT
        try:
            faiss.write_index(index, str(path))
        except RuntimeError as error:  # FAISS raises its own exception if the disk is full
            raise OSError(f"cannot write {path}: {' '.join(str(error).split())[:200]}") from error

    def _trained_pq(self) -> Any:
        index = faiss.IndexPQFastScan(self._dimension, self._quantisers, _CODE_BITS, _METRIC)
        index.pq.cp.niter = _TRAINING_ROUNDS
        index.train(self._sample(_MIN_TRAINING_VECTORS))
        return self._filled(index)

    def _trained_ivf(self) -> Any:
        nlist = min(self.count, 1 << round(math.log2(4 * math.sqrt(self.count))))
        sample = self._sample(max(_TRAINING_VECTORS_PER_LIST * nlist, _MIN_TRAINING_VECTORS))
        exact = faiss.IndexFlatIP(self._dimension)
        index = faiss.IndexIVFPQFastScan(exact, self._dimension, nlist, self._quantisers, _CODE_BITS, _METRIC)
        index.cp.niter, index.cp.seed, index.cp.spherical = _TRAINING_ROUNDS, _SEED, True
        index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, _TRAINING_VECTORS_PER_LIST
        index.train(sample)
        self._filled(index)
        index.nprobe = min(_LISTS_PER_QUERY, nlist)
        # The vectors were added with float32 centroids. Replace these by float16 centroids, for faster searches.
        compact = _new_store(self._dimension)
        compact.add(exact.reconstruct_n(0, nlist))
        index.quantizer = compact
        index.referenced_objects = [compact, exact]
        return index

    def _sample(self, size: int) -> Any:
        rows = np.arange(self.count)
        if size < self.count:
            rows = np.sort(np.random.default_rng(_SEED).choice(self.count, size, replace=False))
        return self.read(rows)

    def _filled(self, index: Any) -> Any:
        for start in range(0, self.count, _VECTORS_PER_BLOCK):
            index.add(self._store.reconstruct_n(start, min(_VECTORS_PER_BLOCK, self.count - start)))
        return index


def _new_store(dimension: int) -> Any:
    return faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, _METRIC)


class _Scratch(threading.local):
    """Buffers for the searches of one thread."""

    codes: Any = None  # uint8 (n, code size)
    scanner: Any = None  # InvertedListScanner, reused because FAISS never frees it


class VectorReader:
    """Searches a published vector file through a memory map, which processes share. Threads may search concurrently.

    The file may be deleted while it is open, but must not be modified.
    """

    def __init__(self, path: Path) -> None:
        """Open a file with a verified checksum, because FAISS may crash on damaged files. May raise IndexCorrupt."""
        try:
            index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:
            raise corrupt(path, "is not a readable vector index") from error
        self._path = path
        self._index, self._store, self.kind, self.base = index, index, "flat", None
        if isinstance(index, faiss.IndexRefine):
            self._store, self.base = faiss.downcast_index(index.refine_index), faiss.downcast_index(index.base_index)
            self.kind = "ivf" if isinstance(self.base, faiss.IndexIVFPQFastScan) else "pq"
        store, base = self._store, self.base
        size = index.ntotal, index.d, _METRIC
        if not (
            isinstance(store, faiss.IndexScalarQuantizer)
            and store.sq.qtype == faiss.ScalarQuantizer.QT_fp16
            and store.codes.size() == store.ntotal * store.code_size
            and (base is None or isinstance(base, faiss.IndexIVFPQFastScan | faiss.IndexPQFastScan))
            and all((each.ntotal, each.d, each.metric_type) == size for each in (index, store, base or store))
        ):
            raise corrupt(path, "is a vector index of another kind")
        self.count = int(index.ntotal)
        self.dimension = int(index.d)
        self._codes = faiss.rev_swig_ptr(store.codes.data(), self.count * store.code_size)
        self._codes = self._codes.reshape(self.count, store.code_size)
        # Read a byte of each memory page, so that the first query is fast. Checking the checksum has cached the file.
        self._codes.reshape(-1)[::_PAGE_BYTES].max(initial=0)
        self._params: dict[int, Any] = {}
        self._scratch = _Scratch()

    def search(self, vector: Vectors, k: int, allowed: RowSet | None = None) -> ScoredRows:
        """Find the k allowed vectors with the largest inner products with a query vector, float32 (dimension,).

        Raises VectorError as `check_query_vector` does, and IndexCorrupt if the file was damaged after opening.
        """
        check_query_vector(vector, self.dimension)
        scratch = self._scratch
        if scratch.codes is None:
            # For a single query, a thread pool takes longer than it saves. The setting applies to this thread only.
            faiss.omp_set_num_threads(1)
            scratch.scanner = self._store.sq.select_InvertedListScanner(_METRIC, None, False, None)
            scratch.codes = np.empty((_CODES_PER_CALL, self._store.code_size), dtype=np.uint8)
        query = np.ascontiguousarray(vector[np.newaxis], dtype=np.float32)
        k = min(k, self.count if allowed is None else allowed.count)
        if k == 0:
            return ScoredRows.none()
        candidates = max(_CANDIDATES_PER_HIT * k, _MIN_CANDIDATES)
        if allowed is not None:
            return self._score(query, k, self._allowed_candidates(query, candidates, allowed))
        params = self._params.get(k)
        if params is None and self.kind != "flat":
            params = self._params[k] = faiss.IndexRefineSearchParameters(k_factor=candidates / k)
        scores, rows = np.empty(k, np.float32), np.empty(k, np.int64)
        # calls the C++ method, because the Python wrapper adds checks and copies
        self._index.search_c(1, faiss.swig_ptr(query), k, faiss.swig_ptr(scores), faiss.swig_ptr(rows), params)
        if rows[-1] < 0:
            scores, rows = scores[rows >= 0], rows[rows >= 0]
        return ScoredRows(self._checked(scores), rows)

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors at these rows, float32 (n, dimension). Raises VectorError if a row does not exist."""
        if len(rows) and (rows.min() < 0 or rows.max() >= self.count):
            raise VectorError(f"there is no row {int(rows.max()):,} in an index of {self.count:,} vectors")
        numbers = _as_float32(self._codes.take(rows, axis=0))
        if numbers.max(initial=0) > _MAX_FLOAT16 or numbers.min(initial=0) < -_MAX_FLOAT16:
            raise corrupt(self._path, "has a vector with NaN or infinity")
        return numbers

    def _checked(self, numbers: Vectors) -> Vectors:
        """Return the same numbers. Raises IndexCorrupt if any is not finite: the file was damaged after opening."""
        if not np.isfinite(numbers).all():
            raise corrupt(self._path, "has a vector with NaN or infinity")
        return numbers

    def _allowed_candidates(self, query: Vectors, count: int, allowed: RowSet) -> Rows:
        """Return allowed rows in ascending order. They probably include the `count` nearest allowed vectors."""
        if self.base is None or allowed.count <= _MAX_ROWS_WITHOUT_SEARCH:
            return allowed.rows()
        if self.kind == "ivf":
            lists = max(self.base.nprobe, int(self.base.nlist * _FILTERED_LIST_SHARE))
            params = faiss.SearchParametersIVF(sel=faiss.IDSelectorBitmap(allowed.mask), nprobe=lists)
            rows = self.base.search(query, _FILTERED_CANDIDATE_FACTOR * count, params=params)[1][0]
            rows = np.sort(rows[rows >= 0])
        else:
            depth = math.ceil(_CANDIDATE_MARGIN * count * allowed.total / allowed.count)
            rows = self.base.search(query, min(depth, self.count))[1][0]
            rows = np.sort(rows[allowed.contains(rows)])
        # If all allowed rows are far from the query, too few candidates remain. Then all allowed rows are scored.
        return rows if len(rows) >= min(count, allowed.count) else allowed.rows()

    def _score(self, query: Vectors, k: int, rows: Rows) -> ScoredRows:
        scanner, gathered = self._scratch.scanner, self._scratch.codes
        scanner.set_query(faiss.swig_ptr(query))
        scanner.set_list(0, 0.0)
        k = min(k, len(rows))
        heap_scores, heap_rows = np.full(k, -np.inf, dtype=np.float32), np.full(k, -1, dtype=np.int64)
        codes, heap = faiss.swig_ptr(gathered), (faiss.swig_ptr(heap_scores), faiss.swig_ptr(heap_rows))
        for start in range(0, len(rows), _CODES_PER_CALL):
            some = rows[start : start + _CODES_PER_CALL]
            np.take(self._codes, some, axis=0, out=gathered[: len(some)], mode="clip")  # mode "raise" makes a copy
            scanner.scan_codes(len(some), codes, faiss.swig_ptr(some), *heap, k)
        order = np.lexsort((heap_rows, -heap_scores))
        return ScoredRows(self._checked(heap_scores[order]), heap_rows[order])


def _as_float32(codes: npt.NDArray[np.uint8]) -> Vectors:
    """Convert float16 codes, (n, 2 × dimension), to float32. Infinity and NaN become numbers beyond `_MAX_FLOAT16`."""
    # Faster than NumPy's cast: shift the sign, exponent and fraction; the factor 2**112 corrects the exponent's bias.
    bits = (codes.view(np.int16).astype(np.int32).view(np.uint32) << 13) & 0x8FFFE000
    return bits.view(np.float32) * np.float32(2.0**112)


def check_query_vector(vector: Vectors, dimension: int) -> None:
    """Raise VectorError if a query vector has another dimension, or numbers that are not finite."""
    if vector.shape != (dimension,):
        raise VectorError(f"a query vector has shape {vector.shape}, but the index has vectors of {dimension} numbers")
    if not np.isfinite(vector).all():
        raise VectorError("a query vector has a NaN or infinite value; check the model")
