"""The array that the query path reads of chunks before their texts: one entry a row, mapped into memory."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.generation.manifest import corrupt, unreadable

DTYPE = np.dtype([("document", "<u4"), ("signature", "<u8")])  # documents.id, and see indexer/generation/signature.py

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
