"""A set of rows of one generation, as a bitmap: what a filter allows a search to return."""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

ScoredRows = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]  # scores (n,) and rows (n,), best first
_KEPT = 50_000  # rows of a set that keeps them, of eight bytes each, beside its bitmap


class RowSet:
    """Rows from 0 to total - 1 that may be returned. Never changed once made; safe to share between threads."""

    def __init__(self, allowed: npt.NDArray[np.bool_]) -> None:
        """Take bool (total,): whether each row is in the set."""
        self.total = len(allowed)
        self.count = int(np.count_nonzero(allowed))
        self.mask: npt.NDArray[np.uint8] = np.packbits(allowed, bitorder="little")
        """uint8 (ceil(total / 8),): row i is bit i & 7 of byte i >> 3, as `faiss.IDSelectorBitmap` reads it."""
        self.mask.flags.writeable = False
        self._rows: npt.NDArray[np.int64] | None = None

    @classmethod
    def from_ranges(cls, total: int, ranges: Iterable[tuple[int, int]]) -> "RowSet":
        """Make the union of half-open ranges [start, end) within total rows; they may touch and overlap.

        Raises:
            ValueError: a range is not within 0 and total.
        """
        ends = np.fromiter(chain.from_iterable(ranges), dtype=np.int64).reshape(-1, 2)
        if len(ends) and (ends.min() < 0 or ends.max() > total or (ends[:, 0] > ends[:, 1]).any()):
            raise ValueError(f"a range of rows is not within 0 and {total}")
        # How many ranges begin and end at each row; their running difference is how many cover it.
        steps = np.bincount(ends[:, 0], minlength=total + 1) - np.bincount(ends[:, 1], minlength=total + 1)
        return cls(np.cumsum(steps[:total]) > 0)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the rows in ascending order, int64 (count,), read-only; a short array is kept for the next time."""
        if self._rows is not None:
            return self._rows
        rows = np.flatnonzero(np.unpackbits(self.mask, count=self.total, bitorder="little"))
        rows.flags.writeable = False
        if self.count <= _KEPT:
            self._rows = rows
        return rows

    def contains(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows, which must be within the total, is in the set: bool, same shape."""
        found: npt.NDArray[np.bool_] = self.mask[rows >> 3] & (1 << (rows & 7)) != 0
        return found

    def __and__(self, other: "RowSet") -> "RowSet":
        """Return the rows that are in both sets, which have the same total."""
        both = np.unpackbits(self.mask & other.mask, count=self.total, bitorder="little")
        return RowSet(both.astype(np.bool_))

    def __contains__(self, row: int) -> bool:
        """Return whether a row, which must be within the total, is in the set."""
        return bool(self.mask[row >> 3] >> (row & 7) & 1)


class TermHits(NamedTuple):
    """The chunks that match the words of a query."""

    scores: npt.NDArray[np.float32]  # BM25 (n,), best first
    rows: npt.NDArray[np.int64]  # (n,)
    idf_sum: float  # BM25 of a passage of average length that has each word of the query once; 0 if unknown


class RowFacts(NamedTuple):
    """What a ranking needs to know of chunks, arrays (n,)."""

    documents: npt.NDArray[np.integer]  # numbers of their documents
    signatures: npt.NDArray[np.uint64]  # SimHashes of their texts
    repeated: npt.NDArray[np.uint8]  # of their texts that other pages have too, from 0 to `repetition.WHOLE`
