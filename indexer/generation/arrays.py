"""Arrays of a generation, mapped into memory: document and signature of each passage, and tokens for late interaction.

`rows.npy` has one entry a passage. `tokens.npy` has the signs of all tokens, one row each; `token_offsets.npy` the
places where the tokens of each passage begin and end.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import Signs, spread
from indexer.errors import VectorError
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS, Manifest, corrupt, unreadable

DTYPE = np.dtype([("document", "<u4"), ("signature", "<u8")])  # documents.id, and see `likeness.signature`

# NumPy parses the head of a file with `ast`, whose parser counts its depth for all threads of the process together up
# to Python 3.12: two at once may end in a SystemError (python/cpython#106905).
_HEAD = threading.Lock()


class RowWriter:
    """Gathers the entries in row order and writes one .npy file."""

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.void]] = []

    def add(self, document: int, signatures: Sequence[int]) -> None:
        """Append the rows of one document."""
        part = np.empty(len(signatures), DTYPE)
        part["document"] = document
        part["signature"] = signatures
        self._parts.append(part)

    def write(self, path: Path) -> None:
        """Write the file; raises OSError if it cannot be written."""
        np.save(path, np.concatenate([np.empty(0, DTYPE), *self._parts]), allow_pickle=False)


def read_rows(path: Path) -> npt.NDArray[np.void]:
    """Map a published file; raises as `read_array` does."""
    rows = read_array(path)
    if rows.dtype != DTYPE or rows.ndim != 1:
        raise corrupt(path, "is an array of another kind")
    return rows


def read_array(path: Path) -> npt.NDArray[Any]:
    """Map an array; raises IndexCorrupt if the file holds none, IndexUnreadable if it cannot be read for now."""
    try:
        with _HEAD:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        return np.asarray(array)  # a memmap is slow to index
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, EOFError) as error:
        raise corrupt(path, "is not a readable array") from error


_HEADER = 128  # bytes before the array: room for any number of tokens, so that it can be written last
_MAGIC_AND_LENGTH = 10


class TokenWriter:
    """Appends tokens to a file; holds 4 bytes a passage, and no tokens."""

    def __init__(self, tokens: Path, offsets: Path) -> None:
        """Make the file of the tokens; raises OSError if that cannot be written."""
        self._offsets_path = offsets
        self._counts: list[npt.NDArray[np.int32]] = []
        self._bytes = 0  # of a token; 0 until there is one
        self.count = 0
        """Passages added so far."""
        self._file = tokens.open("wb")
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

    def finish(self) -> None:
        """Complete both files; raises OSError if they cannot be written."""
        offsets = np.zeros(self.count + 1, dtype=np.int64)
        if self._counts:
            np.cumsum(np.concatenate(self._counts), out=offsets[1:])
        self._file.seek(0)
        self._file.write(_header(int(offsets[-1]), self._bytes))
        self._file.close()
        np.save(self._offsets_path, offsets, allow_pickle=False)

    def close(self) -> None:
        """Release the file, complete or not."""
        self._file.close()


class TokenReader:
    """The tokens of a published generation; safe to share between threads. The file may be deleted meanwhile."""

    def __init__(self, tokens: Path, offsets: Path, passages: int) -> None:
        """Map the files of a generation with so many passages; raises IndexCorrupt or IndexUnreadable."""
        self.signs: Signs = read_array(tokens)
        self._offsets: npt.NDArray[np.int64] = read_array(offsets)
        if self.signs.dtype != np.uint8 or self.signs.ndim != 2 or not self.signs.flags.c_contiguous:
            raise corrupt(tokens, "is an array of another kind")
        if self._offsets.dtype != np.int64 or self._offsets.shape != (passages + 1,):
            raise corrupt(offsets, "its passages do not match the manifest")
        if self._offsets[0] != 0 or (np.diff(self._offsets) < 0).any() or self._offsets[-1] != len(self.signs):
            raise corrupt(offsets, "its tokens do not match their file")

    def places(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return where the tokens of passages begin in `signs`, int64 (n,), and how many they are, int32 (n,)."""
        starts = self._offsets[rows]
        return starts, (self._offsets[rows + 1] - starts).astype(np.int32)

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return signs of tokens and, of each of these passages, where its own begin and how many they are."""
        return (self.signs, *self.places(rows))

    def read(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int32]]:
        """Return the tokens of passages as `TokenWriter.add` takes them."""
        starts, counts = self.places(rows)
        return self.signs[spread(starts, counts)], counts


class TokenSource(Protocol):
    """What a search compares the tokens of a query with: those of one generation, or of several that are one."""

    def gather(self, rows: npt.NDArray[np.int64]) -> tuple[Signs, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return signs of tokens and, of each of these passages, where its own begin and how many they are."""


def open_tokens(folder: Path, manifest: Manifest) -> TokenReader | None:
    """Return the tokens of a generation, or None where they are not kept. Raises IndexCorrupt or IndexUnreadable."""
    if TOKENS not in manifest.files:
        return None
    return TokenReader(folder / TOKENS, folder / TOKEN_OFFSETS, manifest.counts.chunks)


def _header(tokens: int, width: int) -> bytes:
    """Return the header of a .npy file of uint8 (tokens, width), format 1.0, padded to a fixed length."""
    fields = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({tokens}, {width}), }}"
    length = _HEADER - _MAGIC_AND_LENGTH
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + fields.ljust(length - 1).encode() + b"\n"
