"""What is known of the passages of a generation by their rows: sets of rows, facts for their ranking, and tokens.

Arrays are mapped into memory. `rows.npy` has one entry a passage. `tokens.npy` has the signs of all tokens for late
interaction, one row each; `token_offsets.npy` the places where the tokens of each passage begin and end.
"""

import os
import threading
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs, spread
from embedder.model.tokenizer import MAX_KNOWN_SHARE
from indexer.errors import VectorError
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS, corrupt, unreadable

ScoredRows = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]  # scores (n,) and rows (n,), best first
MOST_WITH_TOKENS = 200_000  # passages: 2 GB, if they have 200 tokens of 48 bytes
_KEPT = 50_000  # rows of a set that keeps them, of eight bytes each, beside its bitmap
ROW = np.dtype([("document", "<u4"), ("signature", "<u8")])  # documents.id, and see `writer.signature`

# NumPy parses the head of a file with `ast`, whose parser counts its depth for all threads of the process together up
# to Python 3.12: two at once may end in a SystemError (python/cpython#106905).
_HEAD = threading.Lock()
_HEADER = 128  # bytes before the array: NumPy leaves room for any number of tokens, so that it can be written last
NEAR = 2  # bits in which signatures of texts that count as the same may differ: at most about one word in a hundred


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


def read_array(path: Path, dtype: npt.DTypeLike, dimensions: int = 1) -> npt.NDArray[Any]:
    """Map an array; raises IndexCorrupt if the file holds none of this kind, IndexUnreadable if it cannot be read."""
    try:
        with _HEAD:
            array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # a memmap is slow to index
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # NumPy's parser of the header raises whatever Python's tokenizer does
        raise corrupt(path, "is not a readable array") from error
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise corrupt(path, "is an array of another kind")
    return array


def read_arrays(folder: Path, kinds: dict[str, npt.DTypeLike]) -> list[npt.NDArray[Any]]:
    """Map several arrays of one dimension by their file names. Raises as `read_array` does."""
    return [read_array(folder / name, dtype) for name, dtype in kinds.items()]


def why_no_tokens(passages: int, broken: tuple[int, int], *, is_multilingual: bool) -> str:
    """Return why tokens of so many passages are not kept unless that is asked for; empty if they are.

    `broken` is `Embedder.count_broken` of some of them: in a language that the model does not know, tokens mislead. So
    do those of a model of many languages where a question is in another one than the text.
    """
    if is_multilingual:
        return "the model is for many languages, between which tokens mislead"
    if passages > MOST_WITH_TOKENS:
        return f"there are more than {MOST_WITH_TOKENS:,} passages"
    return "the model does not know the language" if broken[0] > MAX_KNOWN_SHARE * broken[1] else ""


class TokenWriter:
    """Appends tokens to a file; holds 4 bytes a passage, and no tokens."""

    def __init__(self, folder: Path) -> None:
        """Make the file of the tokens; raises OSError if that cannot be written."""
        self._folder = folder
        self._counts: list[npt.NDArray[np.int32]] = []
        self._bytes = 0  # of a token; 0 until there is one
        self.count = 0  # passages added so far
        self._file = (folder / TOKENS).open("w+b")
        self._file.write(bytes(_HEADER))

    def add(self, signs: Signs, counts: npt.NDArray[np.int32]) -> None:
        """Append passages: their tokens' signs, uint8 (tokens, width / 8), and how many each has, int32 (n,).

        Raises VectorError if these do not match each other or what came before, OSError if they cannot be written.
        """
        self._bytes = self._bytes or signs.shape[1]
        if signs.shape != (counts.sum(), self._bytes) or signs.dtype != np.uint8:
            raise VectorError(
                f"the embedder gave tokens of shape {signs.shape}, not ({counts.sum()}, {self._bytes}); check the model"
            )
        self._file.write(np.ascontiguousarray(signs).data)
        self._counts.append(counts.astype(np.int32))
        self.count += len(counts)

    def read(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]]:
        """Return the tokens of passages that were added, at least one, as `add` takes them; raises OSError."""
        counts = np.concatenate(self._counts)
        ends = counts.cumsum(dtype=np.int64)
        self._file.flush()
        signs = np.memmap(self._file, np.uint8, "r", _HEADER, (int(ends[-1]), self._bytes))
        self._file.seek(0, os.SEEK_END)
        return np.asarray(signs[spread((ends - counts)[rows], counts[rows])]), counts[rows]

    def finish(self) -> None:
        """Complete both files; raises OSError if they cannot be written."""
        offsets = np.concatenate([[0], *self._counts]).cumsum(dtype=np.int64)
        fields = {"descr": "|u1", "fortran_order": False, "shape": (int(offsets[-1]), self._bytes)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, fields)
        self._file.close()
        np.save(self._folder / TOKEN_OFFSETS, offsets, allow_pickle=False)

    def close(self) -> None:
        """Release the file, complete or not."""
        self._file.close()

    def remove(self) -> None:
        """Remove the file, which is not complete."""
        self._file.close()
        (self._folder / TOKENS).unlink()


class TokenReader:
    """The tokens of a published generation; safe to share between threads. The file may be deleted meanwhile."""

    def __init__(self, folder: Path, passages: int) -> None:
        """Map the files of a generation with so many passages; raises IndexCorrupt or IndexUnreadable."""
        self._path = folder / TOKEN_OFFSETS
        self.signs: Signs = read_array(folder / TOKENS, np.uint8, 2)
        self._offsets: npt.NDArray[np.int64] = read_array(folder / TOKEN_OFFSETS, np.int64)
        if len(self._offsets) != passages + 1:
            raise corrupt(folder / TOKEN_OFFSETS, "its passages do not match the manifest")
        if self._offsets[0] != 0 or (np.diff(self._offsets) < 0).any() or self._offsets[-1] != len(self.signs):
            raise corrupt(folder / TOKEN_OFFSETS, "its tokens do not match their file")

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return all signs and, of each passage, where its own begin, int64 (n,), and how many they are, int32 (n,)."""
        starts, ends = self._offsets[rows], self._offsets[rows + 1]
        if ((starts < 0) | (ends < starts) | (ends > len(self.signs))).any():  # damaged since it was opened
            raise corrupt(self._path, "its tokens do not match their file")
        return self.signs, starts, (ends - starts).astype(np.int32)

    def read(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]]:
        """Return the tokens of passages as `TokenWriter.add` takes them."""
        _, starts, counts = self.gather(rows)
        return self.signs[spread(starts, counts)], counts
