"""Passages that say the same: near-duplicates, lines that repeat under many titles, and rows that stand twice."""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from zlib import crc32

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import fold, words
from indexer.records import COLUMNS

NEAR = 2  # bits in which signatures of texts that count as the same may differ: at most about one word in a hundred
TITLES = 5  # from which a line counts as repeated; chosen with the strength in `rag.query.ranking`
WHOLE = 255  # value stored for a passage that consists of repeated lines only; 0 for one without any
_SHINGLE = 3  # words
_LONGEST = 0xFFFF  # characters that a line counts for at most
_PARTS = 16  # of the lines, which are sorted one after another: that takes memory


_DIGESTS = [hashlib.blake2b(bytes([number]), digest_size=8).digest() for number in range(64)]
_ORDERS = np.array([int.from_bytes(digest, "little") | 1 for digest in _DIGESTS], dtype=np.uint64)  # each gives a bit
_PLACES = _ORDERS[:_SHINGLE]  # one for each word of a shingle, so that their order counts


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


@lru_cache(maxsize=1 << 16)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(fold(word).encode("utf-8", "replace"), digest_size=8).digest(), "little")


class RepetitionCounter:
    """Collects the lines of all passages of a generation, in row order; 6 bytes a line, and 8 a passage."""

    def __init__(self) -> None:
        self._lines, self._lengths = array("I"), array("H")
        self._counts, self._titles = array("I"), array("I")  # lines of each passage, and its title

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

    def shares(self) -> npt.NDArray[np.uint8]:
        """Return the share of each passage's characters in repeated lines, uint8 (n,), from 0 to WHOLE."""
        lines, lengths, counts = np.array(self._lines), np.array(self._lengths), np.array(self._counts, np.int64)
        titles = np.repeat(np.array(self._titles), counts)  # of each line
        repeats = np.zeros(len(lines), np.bool_)
        for part in range(_PARTS):
            here = lines % _PARTS == part
            pairs = np.unique(lines[here].astype(np.uint64) << np.uint64(32) | titles[here])
            found, times = np.unique(pairs >> np.uint64(32), return_counts=True)
            repeats[here] = np.isin(lines[here], found[times >= TITLES].astype(np.uint32))
        ends = np.cumsum(counts)
        sums = []  # of all characters of each passage, and of those in repeated lines
        for values in (lengths, lengths * repeats):
            reach = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
            sums.append(reach[ends] - reach[ends - counts])
        return np.asarray(np.rint(WHOLE * sums[1] / np.maximum(sums[0], 1)), dtype=np.uint8)


def _number(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


def once(texts: Sequence[str], whole: int | None = None) -> list[str]:
    """Return consecutive passages, each without the names of columns that it repeats because a table goes on in it.

    The passage at index `whole` keeps them.
    """
    kept = list(texts)
    for place, (before, text) in enumerate(pairwise(texts), 1):
        ended = _rows(before.split("\n")[::-1])[::-1]  # the rows that it ends with, the names of columns among them
        again = _rows(text.split("\n"))
        while again and ended[: len(again)] != again:
            again.pop()
        length = sum(len(row) + 1 for row in again)
        if length < len(text) and place != whole:
            kept[place] = text[length:]
    return kept


def _rows(lines: Sequence[str]) -> list[str]:
    return list(takewhile(lambda line: COLUMNS in line, lines))
