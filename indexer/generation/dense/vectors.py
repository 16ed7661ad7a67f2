"""Vectors in FAISS: written in row order, searched through a memory map, with or without a filter.

Inner product over float16 codes: half the memory of float32 and, for unit vectors, the same ranking.
"""

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from indexer.errors import ConfigError, VectorError
from indexer.generation.dense.index_kinds import KINDS, REFINED, build, choose, faiss, new_store, open_parts
from indexer.generation.manifest import corrupt
from indexer.rowset import RowSet, ScoredRows

_LARGEST = float(np.finfo(np.float16).max)
_PAGE = 4096
_CANDIDATES = 150  # scored exactly for a query, at least
_TOGETHER = 1024  # codes scored at once: they stay in the cache
_MARGIN = 1.3  # of candidates found over those expected to be needed
_SCORED_ALONE = 20_000  # allowed rows up to which scoring each of them is faster than searching for them

# Filtered search in an inverted file, see `FilteredLists`
_MORE = 1.6  # times the share of lists that is read without a filter: the k-th allowed row is farther away
_CROWDED = 0.75  # power of the crowding: a root of it, 0.5, finds 0.957 of the nearest in a subject of 10 %
_ALL = 0.4  # of the allowed rows to read, from which scoring all of them is as fast, and exact
_NEAR = 512  # lists ranked at first; nearly always enough, and ranking them all takes longer


class VectorWriter:
    """Gathers vectors in row order and writes one file.

    Holds the codes, 2 bytes a dimension, until they are written; building the index over them takes, for a moment, as
    much again as its training sample, at most 40 vectors for each of the 4·√n lists.
    """

    def __init__(self, dimension: int, kind: str = "auto") -> None:
        """Take `kind` from auto, flat, pq, ivf; raises ConfigError for another."""
        if kind not in ("auto", *KINDS):
            raise ConfigError(f"vector_index must be one of auto, {', '.join(KINDS)}, not {kind!r}")
        self._dimension = dimension
        self._kind = kind
        self._store = new_store(dimension)
        self._trained: Any = None

    @property
    def count(self) -> int:
        """Vectors added so far."""
        return int(self._store.ntotal)

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
        self._store.add(np.ascontiguousarray(vectors, dtype=np.float32))

    def train_as(self, other: "VectorReader") -> None:
        """Take over what another index over nearly the same vectors was trained to, if it is of the same kind."""
        self._trained = other.trained

    def write(self, path: Path) -> None:
        """Build the index and write the file; raises OSError if it cannot be written."""
        index = build(self._store, choose(self.count, self._kind), self._trained)
        try:
            faiss.write_index(index, str(path))
        except RuntimeError as error:  # FAISS reports a full disk as its own exception
            raise OSError(f"cannot write {path}: {' '.join(str(error).split())[:200]}") from error


@dataclass(frozen=True)
class _Plan:
    """The part of a filtered search that is worked out before the query comes."""

    counts: npt.NDArray[np.int64]  # allowed rows of each list
    enough: float  # allowed rows to read
    selector: Any


class FilteredLists:
    """Finds candidates among allowed rows in an inverted file. Safe to share between threads.

    A fixed number of lists fails where a filter and a query are about different things: the lists near the query then
    hold few allowed rows, or none. So lists are read, nearest first and empty ones skipped, until they hold a share of
    all that is allowed. The share grows with how few lists the allowed rows crowd into.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self._quantizer = faiss.downcast_index(index.quantizer)
        lists = index.invlists
        self._sizes = np.array([lists.list_size(i) for i in range(index.nlist)], dtype=np.int64)
        self._list_of = np.empty(index.ntotal, dtype=np.min_scalar_type(index.nlist))
        for i in np.flatnonzero(self._sizes).tolist():
            self._list_of[faiss.rev_swig_ptr(lists.get_ids(i), int(self._sizes[i]))] = i
        self._plans: WeakKeyDictionary[RowSet, _Plan] = WeakKeyDictionary()

    def search(self, query: npt.NDArray[np.float32], wanted: int, allowed: RowSet) -> npt.NDArray[np.int64]:
        """Return `wanted` allowed rows that are probably among the nearest, or all, int64 (n,), ascending.

        Args:
            query: float32 (1, dimension), contiguous.
            wanted: how many.
            allowed: rows that may be found, at least one.
        """
        plan = self._plans.get(allowed)
        if plan is None:
            plan = self._plans[allowed] = self._plan(allowed)
        if plan.enough >= _ALL * allowed.count:
            return allowed.rows()
        lists, scores = self._choose(query, plan)
        params = faiss.SearchParametersIVF(nprobe=len(lists), sel=plan.selector)
        distances, rows = np.empty(wanted, dtype=np.float32), np.empty(wanted, dtype=np.int64)
        pointers = [faiss.swig_ptr(array) for array in (lists, scores, distances, rows)]
        self._index.search_preassigned_c(1, faiss.swig_ptr(query), wanted, *pointers, False, params)
        return np.sort(rows[rows >= 0])

    def _plan(self, allowed: RowSet) -> _Plan:
        counts = np.bincount(self._list_of[allowed.rows()], minlength=len(self._sizes))
        crowding = _effective(self._sizes) / _effective(counts)
        share = _MORE * self._index.nprobe / self._index.nlist * max(1.0, crowding) ** _CROWDED
        return _Plan(counts, min(1.0, share) * allowed.count, faiss.IDSelectorBitmap(allowed.mask))

    def _choose(
        self, query: npt.NDArray[np.float32], plan: _Plan
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return lists, nearest first, that hold enough allowed rows, and the scores of their centroids."""
        for ranked in (min(_NEAR, len(self._sizes)), len(self._sizes)):
            scores, lists = self._quantizer.search(query, ranked)
            counts = plan.counts[lists[0]]
            held = np.cumsum(counts)
            if held[-1] >= plan.enough:
                break
        last = int(np.searchsorted(held, plan.enough))
        used = np.flatnonzero(counts[: last + 1])
        return np.ascontiguousarray(lists[0][used]), np.ascontiguousarray(scores[0][used])


def _effective(counts: npt.NDArray[np.int64]) -> float:
    """Return how many lists of equal size would be as crowded as these."""
    return float(counts.sum()) ** 2 / float(np.square(counts.astype(np.float64)).sum())


class _Scratch(threading.local):
    """Buffers of one searching thread."""

    codes: Any = None  # uint8 (n, code size)
    scanner: Any = None  # InvertedListScanner; kept, as FAISS hands it over without anybody to free it


class VectorReader:
    """Searches a published file through a memory map, which processes share; concurrent searches are safe.

    The file may be deleted meanwhile, but must never be written to.
    """

    def __init__(self, path: Path) -> None:
        """Open a file whose checksum has been verified: FAISS must not be given hostile bytes.

        Raises:
            IndexCorrupt: it is not an index of a kind that `VectorWriter` makes.
        """
        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise corrupt(path, "is not a readable vector index") from error
        parts = open_parts(self._index)
        if parts is None:
            raise corrupt(path, "is a vector index of another kind")
        self.kind: str = parts.kind
        self._store, self._base = parts.store, parts.base
        self._searched = self._store if parts.kind == "flat" else self._index
        self._lists = FilteredLists(parts.base) if parts.kind == "ivf" else None
        self.count = int(self._index.ntotal)
        self.dimension = int(self._index.d)
        self._codes = faiss.rev_swig_ptr(self._store.codes.data(), self.count * self._store.code_size)
        self._codes = self._codes.reshape(self.count, self._store.code_size)
        # Map every page now, so that no query has to: they have just been read for the checksum.
        self._codes.reshape(-1)[::_PAGE].max(initial=0)
        self._params: dict[int, Any] = {}  # by k
        self._scratch = _Scratch()

    def search(self, vector: npt.NDArray[np.float32], k: int, allowed: RowSet | None = None) -> ScoredRows:
        """Find the vectors with the largest inner product.

        Args:
            vector: float32 (dimension,).
            k: how many, at least 1.
            allowed: rows that may be found; all of them if None.

        Returns:
            Scores float32 (n,), best first, and rows int64 (n,); n is k, or less if fewer are allowed.

        Raises:
            VectorError: the vector has another length, or is not finite.
        """
        check_query_vector(vector, self.dimension)
        self._prepare_thread()
        query = np.ascontiguousarray(vector[np.newaxis], dtype=np.float32)
        k = min(k, self.count if allowed is None else allowed.count)
        if k == 0:
            return np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)
        if allowed is None:
            params = self._params.get(k)
            if params is None:
                refined = faiss.IndexRefineSearchParameters(k_factor=max(REFINED * k, _CANDIDATES) / k)
                params = self._params[k] = None if self.kind == "flat" else refined
        elif self._lists is not None and allowed.count > _SCORED_ALONE:
            return self._score(query, k, self._lists.search(query, max(REFINED * k, _CANDIDATES), allowed))
        elif self.kind == "pq" and allowed.count > _SCORED_ALONE:
            return self._score(query, k, self._allowed_candidates(query, max(REFINED * k, _CANDIDATES), allowed))
        else:
            return self._score(query, k, allowed.rows())
        scores, rows = self._searched.search(query, k, params=params)
        kept = rows[0] >= 0
        return scores[0][kept], rows[0][kept]

    @property
    def trained(self) -> Any:
        """What `build` may take over; None where there is nothing."""
        return self._base if self.kind == "pq" else None

    def vectors(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return vectors as they are stored, float32 (n, dimension); a writer gives them the same codes again.

        Raises:
            VectorError: a row is not in the index.
        """
        if len(rows) and (rows.min() < 0 or rows.max() >= self.count):
            raise VectorError(f"there are {self.count:,} vectors, and none in row {int(rows.max()):,}")
        vectors: npt.NDArray[np.float32] = self._codes[rows].view(np.float16).astype(np.float32)
        return vectors

    def _prepare_thread(self) -> None:
        scratch = self._scratch
        if scratch.codes is None:
            # A pool of threads costs more than it gives for one query; OpenMP keeps this setting per thread.
            faiss.omp_set_num_threads(1)
            scratch.scanner = self._store.sq.select_InvertedListScanner(self._index.metric_type, None, False, None)
            scratch.codes = np.empty((_TOGETHER, self._store.code_size), dtype=np.uint8)

    def _allowed_candidates(
        self, query: npt.NDArray[np.float32], wanted: int, allowed: RowSet
    ) -> npt.NDArray[np.int64]:
        """Return `wanted` allowed rows or more that lead the order of all rows, or every allowed row."""
        among = math.ceil(_MARGIN * wanted * allowed.total / allowed.count)
        rows = self._base.search(query, min(among, self.count))[1][0]
        rows = np.sort(rows[allowed.contains(rows)])
        # Too few where the query and the filter are about different things.
        return rows if len(rows) >= min(wanted, allowed.count) else allowed.rows()

    def _score(self, query: npt.NDArray[np.float32], k: int, rows: npt.NDArray[np.int64]) -> ScoredRows:
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
        return scores[order], found[order]


def check_query_vector(vector: npt.NDArray[np.float32], dimension: int) -> None:
    """Raise VectorError unless a vector can be searched for among such of this dimension."""
    if vector.shape != (dimension,):
        raise VectorError(f"a query vector has shape {vector.shape}, the index needs ({dimension},)")
    if not np.isfinite(vector).all():
        raise VectorError("a query vector has a NaN or infinite value; check the model")
