"""Filtered search in an inverted file: which lists to read follows from where the allowed rows are.

A fixed number of lists fails where a filter and a query are about different things: the lists near the query then hold
few allowed rows, or none. So lists are read, nearest first and empty ones skipped, until they hold a share of all that
is allowed. The share grows with how few lists the allowed rows crowd into.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from indexer.generation.dense.index_kinds import faiss
from indexer.rowset import RowSet

_MORE = 1.6  # times the share of lists that is read without a filter: the k-th allowed row is farther away
_CROWDED = 0.75  # power of the crowding: a root of it, 0.5, finds 0.957 of the nearest in a subject of 10 %
_ALL = 0.4  # of the allowed rows to read, from which scoring all of them is as fast, and exact
_NEAR = 512  # lists ranked at first; nearly always enough, and ranking them all takes longer


@dataclass(frozen=True)
class _Plan:
    """The part of a filtered search that is worked out before the query comes."""

    counts: npt.NDArray[np.int64]  # allowed rows of each list
    enough: float  # allowed rows to read
    selector: Any


class FilteredLists:
    """Finds candidates among allowed rows. Safe to share between threads."""

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
