"""Vectors in FAISS: written in row order, searched through a memory map, with or without a filter.

Every index keeps the vectors as float16 codes in row order, the store: scores always come from it, and the next build
takes unchanged vectors out of it. What a kind adds finds candidates: a `flat` index is the store alone, a `pq` has
4-bit codes of all vectors, an `ivf` has them in lists.
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
from indexer.generation.rows import RowSet, ScoredRows

faiss: Any = partly_typed  # its own type stubs leave out or misstate much of what is used here
Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
_METRIC = faiss.METRIC_INNER_PRODUCT
_LARGEST = float(np.finfo(np.float16).max)
_PAGE = 4096

# Vectors from which one kind becomes faster than the one before: measured, see "Index types" in docs/running.md.
_PQ_FROM = 2_000
_IVF_FROM = 131_072
# Training
_BITS = 4
_PROBES = 192  # lists that a query reads
_PER_LIST = 40  # vectors that train one list
_ROUNDS = 10
_SAMPLE = 20_000  # vectors that train a product quantiser, at least
_BLOCK = 16_384  # vectors that are float32 at the same time
_SEED = 1234
# Searching
_REFINED = 3  # candidates scored exactly, for each hit that is asked for
_CANDIDATES = 150  # scored exactly for a query, at least
_TOGETHER = 1024  # codes scored at once: they stay in the cache
_MARGIN = 1.3
_SCORED_ALONE = 20_000  # allowed rows up to which scoring each of them is faster than searching for them
# A filter and a query may be about different things: then the lists near the query hold few allowed rows.
_FILTERED_SHARE = 4  # a quarter of all lists is read with a filter
_FILTERED_MORE = 3  # times as many candidates as without one


class VectorWriter:
    """Gathers vectors in row order, 2 bytes a dimension, and writes one file."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        # sub-quantisers of a vector: one for two dimensions loses least for what it costs to scan
        self._parts = dimension // 2 if dimension % 2 == 0 else dimension
        self._store = _new_store(dimension)

    @property
    def count(self) -> int:
        """Vectors added so far."""
        return int(self._store.ntotal)

    def add(self, vectors: Vectors) -> None:
        """Append float32 (n, dimension) vectors; raises VectorError if one cannot be stored or compared."""
        if vectors.ndim != 2 or vectors.shape[1] != self._dimension:
            raise VectorError(
                f"the embedder gave vectors of shape {vectors.shape}, not (n, {self._dimension}); check the model"
            )
        are_good = np.all(np.abs(vectors) <= _LARGEST, axis=1)
        if not are_good.all():
            raise VectorError(
                f"the embedder gave a NaN, infinite or huge value in vector {self.count + int(np.argmin(are_good))}; "
                "check the model, or try another precision"
            )
        self._store.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def read(self, rows: Rows) -> Vectors:
        """Return vectors that were added, by row: float32 (n, dimension), as they are stored."""
        return self._store.reconstruct_batch(rows)  # type: ignore[no-any-return]

    def write(self, path: Path) -> None:
        """Build the index and write the file; raises OSError if it cannot be written.

        With fixed seeds, the same vectors in the same order give the same file.
        """
        index = self._store
        if self.count >= _PQ_FROM:
            base = self._trained_pq() if self.count < _IVF_FROM else self._trained_ivf()
            index = faiss.IndexRefine(base, self._store)
            index.k_factor = _REFINED
        try:
            faiss.write_index(index, str(path))
        except RuntimeError as error:  # FAISS reports a full disk as its own exception
            raise OSError(f"cannot write {path}: {' '.join(str(error).split())[:200]}") from error

    def _trained_pq(self) -> Any:
        index = faiss.IndexPQFastScan(self._dimension, self._parts, _BITS, _METRIC)
        index.pq.cp.niter = _ROUNDS
        index.train(self._sample(_SAMPLE))
        return self._filled(index)

    def _trained_ivf(self) -> Any:
        nlist = min(self.count, 1 << round(math.log2(4 * math.sqrt(self.count))))
        sample = self._sample(max(_PER_LIST * nlist, _SAMPLE))
        exact = faiss.IndexFlatIP(self._dimension)
        clustering = faiss.Clustering(self._dimension, nlist)
        clustering.niter, clustering.seed, clustering.spherical = _ROUNDS, _SEED, True
        clustering.min_points_per_centroid, clustering.max_points_per_centroid = 1, _PER_LIST
        clustering.train(sample, exact)
        index = faiss.IndexIVFPQFastScan(exact, self._dimension, nlist, self._parts, _BITS, _METRIC)
        index.train(sample)
        self._filled(index)
        index.nprobe = min(_PROBES, nlist)
        # A query reads every centroid once, so half the bytes are faster; vectors are assigned by a matrix product.
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
        for start in range(0, self.count, _BLOCK):
            index.add(self._store.reconstruct_n(start, min(_BLOCK, self.count - start)))
        return index


def _new_store(dimension: int) -> Any:
    return faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, _METRIC)


class _Scratch(threading.local):
    """Buffers of one searching thread."""

    codes: Any = None  # uint8 (n, code size)
    scanner: Any = None  # InvertedListScanner; kept, as FAISS hands it over without anybody to free it


class VectorReader:
    """Searches a published file through a memory map, which processes share; concurrent searches are safe.

    The file may be deleted meanwhile, but must never be written to.
    """

    def __init__(self, path: Path) -> None:
        """Open a file whose checksum has been verified: FAISS must not be given hostile bytes. Raises IndexCorrupt."""
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
            and all((part.ntotal, part.d, part.metric_type) == size for part in (index, store, base or store))
        ):
            raise corrupt(path, "is a vector index of another kind")
        self.count = int(index.ntotal)
        self.dimension = int(index.d)
        self._codes = faiss.rev_swig_ptr(store.codes.data(), self.count * store.code_size)
        self._codes = self._codes.reshape(self.count, store.code_size)
        # map every page before the first query; the checksum has just read them
        self._codes.reshape(-1)[::_PAGE].max(initial=0)
        self._params: dict[int, Any] = {}
        self._scratch = _Scratch()

    def search(self, vector: Vectors, k: int, allowed: RowSet | None = None) -> ScoredRows:
        """Find the k vectors, or fewer if fewer are allowed, with the largest inner product with one (dimension,).

        Returns scores float32 (n,), best first, and rows int64 (n,); raises VectorError as `check_query_vector` does.
        """
        check_query_vector(vector, self.dimension)
        scratch = self._scratch
        if scratch.codes is None:
            # A pool of threads costs more than it gives for one query; OpenMP keeps this setting per thread.
            faiss.omp_set_num_threads(1)
            scratch.scanner = self._store.sq.select_InvertedListScanner(_METRIC, None, False, None)
            scratch.codes = np.empty((_TOGETHER, self._store.code_size), dtype=np.uint8)
        query = np.ascontiguousarray(vector[np.newaxis], dtype=np.float32)
        k = min(k, self.count if allowed is None else allowed.count)
        if k == 0:
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        if allowed is not None:
            return self._score(query, k, self._allowed_candidates(query, max(_REFINED * k, _CANDIDATES), allowed))
        params = self._params.get(k)
        if params is None and self.kind != "flat":
            factor = max(_REFINED * k, _CANDIDATES) / k
            params = self._params[k] = faiss.IndexRefineSearchParameters(k_factor=factor)
        scores, rows = np.empty(k, np.float32), np.empty(k, np.int64)
        # the method of C++: that for Python checks and copies what is right here
        self._index.search_c(1, faiss.swig_ptr(query), k, faiss.swig_ptr(scores), faiss.swig_ptr(rows), params)
        if rows[-1] < 0:  # fewer were found
            scores, rows = scores[rows >= 0], rows[rows >= 0]
        return self._checked(scores), rows

    def vectors(self, rows: Rows) -> Vectors:
        """Return vectors as they are stored, to which a writer gives the same codes again. Raises VectorError."""
        if len(rows) and (rows.min() < 0 or rows.max() >= self.count):
            raise VectorError(f"there are {self.count:,} vectors, and none in row {int(rows.max()):,}")
        numbers = _as_float32(self._codes.take(rows, axis=0))
        if numbers.max(initial=0) > _LARGEST or numbers.min(initial=0) < -_LARGEST:
            raise corrupt(self._path, "has a vector that is no number")
        return numbers

    def _checked(self, numbers: Vectors) -> Vectors:
        """Raise IndexCorrupt for numbers that no vector of a writer has: the file was damaged since it was opened."""
        if not np.isfinite(numbers).all():
            raise corrupt(self._path, "has a vector that is no number")
        return numbers

    def _allowed_candidates(self, query: Vectors, wanted: int, allowed: RowSet) -> Rows:
        """Return allowed rows that are probably among the nearest `wanted`, or all allowed rows, ascending."""
        if self.base is None or allowed.count <= _SCORED_ALONE:
            return allowed.rows()
        if self.kind == "ivf":
            lists = max(self.base.nprobe, self.base.nlist // _FILTERED_SHARE)
            params = faiss.SearchParametersIVF(sel=faiss.IDSelectorBitmap(allowed.mask), nprobe=lists)
            rows = self.base.search(query, _FILTERED_MORE * wanted, params=params)[1][0]
            rows = np.sort(rows[rows >= 0])
        else:
            among = math.ceil(_MARGIN * wanted * allowed.total / allowed.count)
            rows = self.base.search(query, min(among, self.count))[1][0]
            rows = np.sort(rows[allowed.contains(rows)])
        # Too few where the query and the filter are about different things.
        return rows if len(rows) >= min(wanted, allowed.count) else allowed.rows()

    def _score(self, query: Vectors, k: int, rows: Rows) -> ScoredRows:
        """Score each of these rows, gathering their codes, and return the k best."""
        scanner, gathered = self._scratch.scanner, self._scratch.codes
        scanner.set_query(faiss.swig_ptr(query))
        scanner.set_list(0, 0.0)
        k = min(k, len(rows))
        scores = np.full(k, -np.inf, dtype=np.float32)  # a heap, as is `found`
        found = np.full(k, -1, dtype=np.int64)
        codes, heap = faiss.swig_ptr(gathered), (faiss.swig_ptr(scores), faiss.swig_ptr(found))
        for start in range(0, len(rows), _TOGETHER):
            some = rows[start : start + _TOGETHER]
            np.take(self._codes, some, axis=0, out=gathered[: len(some)], mode="clip")  # "raise" would copy once more
            scanner.scan_codes(len(some), codes, faiss.swig_ptr(some), *heap, k)
        order = np.lexsort((found, -scores))
        return self._checked(scores[order]), found[order]


def _as_float32(codes: npt.NDArray[np.uint8]) -> Vectors:
    """Return float16 codes (n, 2 × dimension) as numbers, infinity and NaN as numbers above `_LARGEST`."""
    # NumPy casts one number at a time; all that changes is the place of the exponent, and that it is 112 higher
    bits = (codes.view(np.int16).astype(np.int32).view(np.uint32) << 13) & 0x8FFFE000
    return bits.view(np.float32) * np.float32(2.0**112)


def check_query_vector(vector: Vectors, dimension: int) -> None:
    """Raise VectorError unless a vector can be searched for among such of this dimension."""
    if vector.shape != (dimension,):
        raise VectorError(f"a query vector has shape {vector.shape}, the index needs ({dimension},)")
    if not np.isfinite(vector).all():
        raise VectorError("a query vector has a NaN or infinite value; check the model")
