"""Share of a passage that is boilerplate: text in lines that occur in documents of several titles.

Counts titles instead of documents, so that versions and copies of a page count once: what they share with each other
is not boilerplate.
"""

from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from indexer.generation.manifest import corrupt
from indexer.generation.rows import read_array

TITLES = 5
"""Titles from which a line counts as repeated. Chosen with the strength in `ranking`, see docs/evaluation.md."""
WHOLE = 255
"""Value stored for a passage that consists of repeated lines only; 0 for one without any."""
Shares = npt.NDArray[np.uint8]
_LONGEST = 0xFFFF  # characters that a line counts for at most
_BLOCK = 1 << 16  # lines
_PARTS = 16  # of the lines, which are sorted one after another: that takes memory


class RepetitionCounter:
    """Collects all passages of a generation, in row order; takes about 200 bytes of memory per passage at the end."""

    def __init__(self) -> None:
        self._lines: list[int] = []
        self._lengths: list[int] = []
        self._blocks: list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]]] = []
        self._counts: list[int] = []  # lines of each passage
        self._titles: list[int] = []

    def add(self, title: str, texts: Iterable[str]) -> None:
        """Add the passages of one document."""
        number = _number(title)
        for text in texts:
            before = len(self._lines)
            for line in text.splitlines():
                if words := " ".join(line.split()):
                    self._lines.append(_number(words.casefold()))
                    self._lengths.append(min(len(words), _LONGEST))
            self._counts.append(len(self._lines) - before)
            self._titles.append(number)
            if len(self._lines) > _BLOCK:
                self._put_away()

    def shares(self) -> Shares:
        """Return the share of each passage's characters in repeated lines, uint8 (n,), from 0 to WHOLE."""
        self._put_away()
        lines = np.concatenate([block[0] for block in self._blocks])
        lengths = np.concatenate([block[1] for block in self._blocks])
        self._blocks = [(lines, lengths)]
        counts = np.array(self._counts, np.int64)
        titles = np.repeat(np.array(self._titles, np.uint32), counts)  # of each line
        repeats = np.zeros(len(lines), np.bool_)
        for part in range(_PARTS):
            here = lines % _PARTS == part
            pairs = np.unique(lines[here].astype(np.uint64) << np.uint64(32) | titles[here])
            found, times = np.unique(pairs >> np.uint64(32), return_counts=True)
            repeats[here] = np.isin(lines[here], found[times >= TITLES].astype(np.uint32))
        whole = _sums(lengths, counts)
        return np.asarray(np.rint(WHOLE * _sums(lengths * repeats, counts) / np.maximum(whole, 1)), dtype=np.uint8)

    def _put_away(self) -> None:
        self._blocks.append((np.array(self._lines, np.uint32), np.array(self._lengths, np.uint16)))
        self._lines.clear()
        self._lengths.clear()


def read_shares(path: Path, count: int) -> Shares:
    """Map the file of a generation with `count` passages, uint8 (count,); raises IndexCorrupt or IndexUnreadable."""
    shares: Shares = read_array(path)
    if shares.dtype != np.uint8 or shares.shape != (count,):
        raise corrupt(path, "its shares do not match the manifest")
    return shares


def _sums(values: npt.NDArray[np.uint16], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sums of consecutive runs of values, of the lengths in `counts`."""
    reach = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(counts)
    return np.asarray(reach[ends] - reach[ends - counts], dtype=np.int64)


def _number(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))
