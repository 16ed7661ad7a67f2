"""Passages that say the same: near-duplicates, lines that repeat under many titles, and overlaps of neighbours."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from indexer.generation.arrays import read_array
from indexer.generation.lexical.analysis import fold, words
from indexer.generation.manifest import corrupt
from indexer.records import COLUMNS

NEAR = 2
"""Texts whose signatures differ in at most so many bits count as the same: at most about one word in a hundred."""
_SHINGLE = 3  # words
_BITS = 64


def _odd_numbers(count: int) -> npt.NDArray[np.uint64]:
    digests = (hashlib.blake2b(bytes([number]), digest_size=8).digest() for number in range(count))
    return np.array([int.from_bytes(digest, "little") | 1 for digest in digests], dtype=np.uint64)


_PLACES = _odd_numbers(_SHINGLE)  # one for each word of a shingle, so that their order counts
_ORDERS = _odd_numbers(_BITS)  # each puts the shingles into another order


def signature(text: str) -> int:
    """Return the signature of a text, 64 bits. Case, accents, punctuation and white space do not count."""
    hashes = np.fromiter(map(_hash, words(text).findall(text)), dtype=np.uint64)
    shingles = np.zeros(max(len(hashes) - _SHINGLE + 1, 1), dtype=np.uint64)
    for place, factor in enumerate(_PLACES):
        part = hashes[place : place + len(shingles)] * factor
        shingles[: len(part)] += part
    shingles ^= shingles >> np.uint64(32)  # products carry upwards only: bring what the high bits know to the low ones
    first = (shingles[:, np.newaxis] * _ORDERS).min(axis=0)  # of each order
    bits = (first * _ORDERS) >> np.uint64(63)
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


def distance(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Return in how many bits signatures differ, of the shape to which a and b broadcast."""
    return np.asarray(np.bitwise_count(a ^ b), dtype=np.uint8)


@lru_cache(maxsize=1 << 16)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(fold(word).encode("utf-8", "replace"), digest_size=8).digest(), "little")


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


def overlaps(settings: Mapping[str, Any]) -> bool:
    """Return whether a build with these settings makes overlapping passages."""
    return bool(settings.get("chunk", {}).get("overlap"))


def once(texts: Sequence[str], settings: Mapping[str, Any], whole: int | None = None) -> list[str]:
    """Return consecutive passages of a build, each without the beginning that it shares with the one before it.

    That is where they overlap, and the names of columns that stand again above a table that goes on. The passage at
    index `whole` keeps its beginning; the one before it loses its end instead where they overlap.
    """
    kept, overlapping = list(texts), overlaps(settings)
    for place, (before, text) in enumerate(pairwise(texts), 1):
        head = _head(before, text)
        length = shared(before, text[head:]) if overlapping else 0
        if place != whole:
            kept[place] = _after(text, head + length) if length else text[head:]
        elif length:
            kept[place - 1] = kept[place - 1][:-length].rstrip()
    return kept


def joined(texts: Sequence[str], settings: Mapping[str, Any]) -> str:
    """Join the passages of one section, from a build with these settings."""
    return "\n".join(once(texts, settings))


def _head(before: str, text: str) -> int:
    """Return the length of the names of columns that a passage repeats because a table goes on in it."""
    rows = _rows(before.split("\n")[::-1])[::-1]  # those it ends with, the names of columns among them
    again = _rows(text.split("\n"))
    while again and rows[: len(again)] != again:
        again.pop()
    length = sum(len(row) + 1 for row in again)
    return length if 0 < length < len(text) else 0


def _rows(lines: Sequence[str]) -> list[str]:
    return list(takewhile(lambda line: COLUMNS in line, lines))


def shared(before: str, text: str) -> int:
    """Return the length of the overlap: the beginning of a text that ends the passage before it, in whole words.

    Never the length of the whole text.
    """
    start = max(0, len(before) - len(text) + 1)
    while text and 0 <= (start := before.find(text[0], start)) < len(before):
        length = len(before) - start
        if text.startswith(before[start:]) and _is_edge(before, start) and _is_edge(text, length):
            return length
        start += 1
    return 0


def _after(text: str, length: int) -> str:
    """Return the text after `length` characters, from its next word or line on; a line keeps its indentation."""
    rest = text[length:]
    return rest.lstrip("\n") if rest.startswith("\n") else rest.lstrip()


def _is_edge(text: str, place: int) -> bool:
    """Whether no word continues across a place."""
    return not (0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum())
