"""Map the arrays of an index generation into memory, and represent sets of rows.

`rows.npy` has one entry for each chunk. For late interaction, `tokens.npy` has the sign bits of the vectors of all
tokens, and `token_offsets.npy` has the index of each chunk's first token in `tokens.npy`.
"""

import os
import threading
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs, concatenate_ranges
from embedder.model.tokenizer import MAX_KNOWN_SHARE
from indexer.errors import VectorError
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS, corrupt, unreadable

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
MAX_PASSAGES_WITH_TOKENS = 200_000  # 1 GB if passages have 100 tokens of 48 bytes
_MAX_CACHED_ROWS = 50_000
ROW = np.dtype([("document", "<u4"), ("signature", "<u8")])

# NumPy parses the header of a file with `ast`. Until Python 3.12, `ast` can raise SystemError if two threads call it at
# the same time (python/cpython#106905).
_HEADER_LOCK = threading.Lock()
_HEADER_BYTES = 128  # NumPy pads headers to this size, so the header can be written last
MAX_SIGNATURE_BITS = 2  # the similarity hashes of near-duplicates differ in at most this many of 64 bits


class RowSet:
    """An immutable set of chunk rows, which are numbers from 0 to total - 1. Threads may share it."""

    def __init__(self, allowed: npt.NDArray[np.bool_]) -> None:
        """Create a set from a mask, bool (total,), which is true for the rows in the set."""
        self.total = len(allowed)
        self.count = int(np.count_nonzero(allowed))
        self.mask: npt.NDArray[np.uint8] = np.packbits(allowed, bitorder="little")
        """uint8 (ceil(total / 8),): row i is bit i & 7 of byte i >> 3, as `faiss.IDSelectorBitmap` reads it."""
        self.mask.flags.writeable = False
        self._rows: npt.NDArray[np.int64] | None = None

    @classmethod
    def from_ranges(cls, total: int, ranges: Iterable[tuple[int, int]]) -> "RowSet":
        """Return the union of ranges [start, end), which may overlap. Raises ValueError if one ends after `total`."""
        ends = np.fromiter(chain.from_iterable(ranges), dtype=np.int64).reshape(-1, 2)
        if len(ends) and (ends.min() < 0 or ends.max() > total or (ends[:, 0] > ends[:, 1]).any()):
            raise ValueError(f"a range of rows is not between 0 and {total}")
        # At each row, ranges that start minus ranges that end. The cumulative sum counts ranges that contain the row.
        steps = np.bincount(ends[:, 0], minlength=total + 1) - np.bincount(ends[:, 1], minlength=total + 1)
        return cls(np.cumsum(steps[:total]) > 0)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return the rows as a read-only array in ascending order, int64 (count,). Short arrays are cached."""
        if self._rows is not None:
            return self._rows
        rows = np.flatnonzero(np.unpackbits(self.mask, count=self.total, bitorder="little"))
        rows.flags.writeable = False
        if self.count <= _MAX_CACHED_ROWS:
            self._rows = rows
        return rows

    def contains(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return a mask with the shape of `rows`, true for rows in the set. All rows must be less than `total`."""
        are_inside: npt.NDArray[np.bool_] = self.mask[rows >> 3] & (1 << (rows & 7)) != 0
        return are_inside

    def __and__(self, other: "RowSet") -> "RowSet":
        """Return the intersection with a set that has the same `total`."""
        both = np.unpackbits(self.mask & other.mask, count=self.total, bitorder="little")
        return RowSet(both.astype(np.bool_))

    def __contains__(self, row: int) -> bool:
        """Return whether a row is in the set. The row must be less than `total`."""
        return bool(self.mask[row >> 3] >> (row & 7) & 1)


class ScoredRows(NamedTuple):
    """The hits of a search, best first: cosines or BM25 scores (n,), and rows (n,)."""

    scores: Scores
    rows: Rows

    @classmethod
    def none(cls) -> "ScoredRows":
        """Return the hits of a search that finds nothing."""
        return cls(np.empty(0, np.float32), np.empty(0, np.int64))


class RowFacts(NamedTuple):
    """Document numbers and signatures (similarity hashes) of n chunks, two arrays (n,)."""

    documents: npt.NDArray[np.integer]
    signatures: npt.NDArray[np.uint64]


def read_array(path: Path, dtype: npt.DTypeLike, dimensions: int = 1) -> npt.NDArray[Any]:
    """Map an array file into memory. Raises IndexUnreadable, or IndexCorrupt if it is damaged or of another type."""
    try:
        with _HEADER_LOCK:
            array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # a memmap is slow to index
    except OSError as error:
        raise unreadable(path, error) from error
    except Exception as error:  # NumPy's header parser can raise any error of Python's tokenizer
        raise corrupt(path, "is not a readable array") from error
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise corrupt(path, "is an array of the wrong type or shape")
    return array


def read_arrays(folder: Path, kinds: dict[str, npt.DTypeLike]) -> list[npt.NDArray[Any]]:
    """Map one-dimensional arrays into memory. `kinds` maps file names to dtypes. Raises the errors of `read_array`."""
    return [read_array(folder / name, dtype) for name, dtype in kinds.items()]


def why_no_tokens(passages: int, broken: tuple[int, int], *, is_multilingual: bool) -> str:
    """Return the reason why a build stores no token vectors by default, or an empty string if it stores them.

    Late interaction ranks badly in languages that the model does not know, and between different languages.

    Args:
        broken: result of `Embedder.count_broken` for a sample of passages.
    """
    if is_multilingual:
        return "the model is multilingual, and tokens mislead between languages"
    if passages > MAX_PASSAGES_WITH_TOKENS:
        return f"there are more than {MAX_PASSAGES_WITH_TOKENS:,} passages"
    return "the model does not know the language" if broken[0] > MAX_KNOWN_SHARE * broken[1] else ""


class TokenWriter:
    """Appends token vectors of passages to a file, as sign bits. It uses 4 bytes of memory for each passage."""

    def __init__(self, folder: Path) -> None:
        """Create the file; raises OSError."""
        self._folder = folder
        self._counts: list[npt.NDArray[np.int32]] = []
        self._token_bytes = 0
        self.count = 0
        self._file = (folder / TOKENS).open("w+b")
        self._file.write(bytes(_HEADER_BYTES))

    def add(self, signs: Signs, counts: npt.NDArray[np.int32]) -> None:
        """Append sign bits (tokens, width / 8) and token counts (n,) of n passages. Raises VectorError or OSError."""
        self._token_bytes = self._token_bytes or signs.shape[1]
        if signs.shape != (counts.sum(), self._token_bytes) or signs.dtype != np.uint8:
            expected = (int(counts.sum()), self._token_bytes)
            raise VectorError(f"the embedder returned tokens of shape {signs.shape}, not {expected}; check the model")
        self._file.write(np.ascontiguousarray(signs).data)
        self._counts.append(counts.astype(np.int32))
        self.count += len(counts)

    def read(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]]:
        """Return sign bits and token counts of added passages, in the order of `rows`. Raises OSError if it fails."""
        counts = np.concatenate(self._counts)
        ends = counts.cumsum(dtype=np.int64)
        self._file.flush()
        signs = np.memmap(self._file, np.uint8, "r", _HEADER_BYTES, (int(ends[-1]), self._token_bytes))
        self._file.seek(0, os.SEEK_END)
        return np.asarray(signs[concatenate_ranges((ends - counts)[rows], counts[rows])]), counts[rows]

    def finish(self) -> None:
        """Write the header of the token vectors, and the file of token offsets. Raises OSError if it fails."""
        offsets = np.concatenate([[0], *self._counts]).cumsum(dtype=np.int64)
        fields = {"descr": "|u1", "fortran_order": False, "shape": (int(offsets[-1]), self._token_bytes)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, fields)
        self._file.close()
        np.save(self._folder / TOKEN_OFFSETS, offsets, allow_pickle=False)

    def close(self) -> None:
        """Close the file of token vectors."""
        self._file.close()


class TokenReader:
    """Reads the token vectors of a published index generation, as sign bits. Threads may share a reader."""

    def __init__(self, folder: Path, passages: int) -> None:
        """Map the files into memory. Raises IndexCorrupt if they are damaged, or IndexUnreadable."""
        self._path = folder / TOKEN_OFFSETS
        self.signs: Signs = read_array(folder / TOKENS, np.uint8, 2)
        self._offsets: npt.NDArray[np.int64] = read_array(folder / TOKEN_OFFSETS, np.int64)
        if len(self._offsets) != passages + 1:
            raise corrupt(folder / TOKEN_OFFSETS, "has another number of passages than the manifest")
        if self._offsets[0] != 0 or (np.diff(self._offsets) < 0).any() or self._offsets[-1] != len(self.signs):
            raise corrupt(folder / TOKEN_OFFSETS, "does not match tokens.npy")

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return all sign bits, and for each row the index of its first token and its number of tokens."""
        starts, ends = self._offsets[rows], self._offsets[rows + 1]
        if ((starts < 0) | (ends < starts) | (ends > len(self.signs))).any():  # the file was damaged after opening
            raise corrupt(self._path, "does not match tokens.npy")
        return self.signs, starts, (ends - starts).astype(np.int32)

    def read(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]]:
        """Return the sign bits and token counts of the passages at these rows, as `TokenWriter.add` takes them."""
        _, starts, counts = self.gather(rows)
        return self.signs[concatenate_ranges(starts, counts)], counts
