"""The words of a generation as they are written, to correct words of a query that are not among them.

A word is found by what is left of it and of the other one when a letter or two are taken out of each: words with few
edits between them have such a rest in common (symmetric deletions, Garbe 2012). Two letters are taken out of frequent
words only, which keeps the table small, and a rare word is seldom what two mistakes were meant to be.

Arrays mapped into memory, ordered by length of the word: `word-lengths.npy`; `word-counts.npy`, the passages that have
it; `word-folded.npy` and `word-written.npy`, its letters without and with accents, one after the other;
`word-hashes.npy`, in ascending order, and `word-places.npy`: the hash of each rest, and the word that it is of.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import cached_method, fold, fold_case, has_sign, is_spaceless, words_within
from indexer.generation.manifest import corrupt
from indexer.generation.rows import read_array

FILES = tuple(f"word-{name}.npy" for name in ("lengths", "counts", "folded", "written", "hashes", "places"))
_TYPES = (np.uint8, np.uint32, np.uint16, np.uint16, np.uint32, np.uint32)
SHORTEST, LONGEST = 3, 24  # letters of a word; names and numbers are not corrected
_ONE_EDIT, _TWO_EDITS = 4, 8  # letters from which so many may be wrong
_MOST_WORDS = 1 << 19  # the most frequent ones
_FREQUENT = 1 << 16  # of these, those that two mistakes may have been meant to be
_MOST_COUNTED = 1 << 21  # spellings counted at a time while a generation is written
_MOST_COMPARED = 200  # words that share a rest with one that is looked up, the most frequent ones
_MANY = 10_000
_REMEMBERED = 4096
_MULTIPLIER = 0x9E3779B97F4A7C15

Letters = npt.NDArray[np.uint16]


class Correction(NamedTuple):
    """A word of the index that may have been meant."""

    word: str  # as it is written there, in lower case
    edits: int  # 0 where only accents differ
    passages: int  # that have it


class VocabularyWriter:
    """Counts the passages that have each word. Memory is bounded: rare words go first (Manku and Motwani 2002)."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._dropped = 0  # passages that a word left out may have had

    def add(self, words: Iterable[str]) -> None:
        """Count the words of a passage, as `analysis.words` finds them."""
        self._counts.update(set(words))
        while len(self._counts) > _MOST_COUNTED:
            self._dropped += 1
            self._counts = Counter({word: count for word, count in self._counts.items() if count > self._dropped})

    def write(self, folder: Path) -> None:
        """Write the files; raises OSError if they cannot be written."""
        counts: Counter[str] = Counter()
        spellings: dict[str, tuple[int, str]] = {}
        bare = ((part, count) for word, count in self._counts.items() for part in _without_sign(word))
        for spelled, count in bare:
            written = fold_case(spelled)
            folded = fold(spelled)
            if not is_word(folded):
                continue
            counts[folded] += count
            if len(written) != len(folded) or max(written) > "\uffff":
                written = folded
            spellings[folded] = max(spellings.get(folded, (0, "")), (count, written))
        frequent = counts.most_common(_MOST_WORDS)
        order = sorted(range(len(frequent)), key=lambda place: (len(frequent[place][0]), place))
        words = [frequent[place][0] for place in order]
        lengths = np.array(list(map(len, words)), np.uint8)
        letters = _letters("".join(words))
        accented = _letters("".join(spellings[word][1] for word in words))
        passages = np.array([counts[word] for word in words], np.uint32)
        hashes, places = _table(lengths, letters, np.array(order, np.int64) < _FREQUENT)
        arrays: list[npt.NDArray[Any]] = [lengths, passages, letters, accented, hashes, places]
        for name, array in zip(FILES, arrays, strict=True):
            np.save(folder / name, array, allow_pickle=False)


class Vocabulary:
    """The words of a published folder; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Map the files; raises IndexCorrupt if they are not what `VocabularyWriter` writes."""
        arrays = [read_array(folder / name) for name in FILES]
        for name, array, kind in zip(FILES, arrays, _TYPES, strict=True):
            if array.dtype != kind or array.ndim != 1:
                raise corrupt(folder / name, "is an array of another kind")
        self._lengths, self._counts, self._folded, self._written, self._hashes, self._places = arrays
        self._starts = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.uint32)])
        fits = len(self._counts) == len(self._lengths) and len(self._hashes) == len(self._places)
        if not fits or not len(self._folded) == len(self._written) == self._starts[-1]:
            raise corrupt(folder / FILES[0], "does not match the other words")
        self._known = cached_method(self._corrections, _REMEMBERED)

    def corrections(self, word: str, is_allowed: Callable[[str], bool] | None = None) -> tuple[Correction, ...]:
        """Return the words that may have been meant by one that is not in the index, the likeliest first.

        Words with the fewest edits (a letter inserted, left out or replaced, or two neighbours exchanged) come first,
        then words in most passages. Words of 4 letters may have one edit, of 8 letters two; names and numbers are left
        alone. Where there are many words, one that a single passage has must begin alike.
        """
        return self._corrections(word, is_allowed) if is_allowed else self._known(word)

    def _corrections(self, word: str, is_allowed: Callable[[str], bool] | None = None) -> tuple[Correction, ...]:
        if not is_word(word := fold(word)):
            return ()
        many = len(self._counts) >= _MANY
        most = 0 if len(word) < _ONE_EDIT else 1 if len(word) < _TWO_EDITS else 2
        for edits in range(min(most, 1), most + 1):
            found = [each for each in self._within(word, edits) if each.edits <= edits]
            if is_allowed:
                found = [each for each in found if is_allowed(each.word)]
            if edits > 1 and any(_is_derived(word, fold(each.word)) for each in found):
                return ()
            if found := [each for each in found if each.passages > 1 or not many or each.word[0] == word[0]]:
                return tuple(sorted(found, key=lambda each: (each.edits, -each.passages, each.word)))
        return ()

    def _within(self, word: str, edits: int) -> Iterator[Correction]:
        """Yield the words that share a rest with a word, of which so many letters are taken out."""
        letters = _letters(word)
        hashes = np.concatenate([_hashes(letters[kept]) for kept in _rests(len(word), edits)])
        first, last = np.searchsorted(self._hashes, hashes), np.searchsorted(self._hashes, hashes, side="right")
        there = np.flatnonzero(last > first)
        if not len(there):
            return
        ranges = zip(first[there].tolist(), last[there].tolist(), strict=True)
        places = np.unique(np.concatenate([self._places[start:end] for start, end in ranges]))
        places = places[places < len(self._counts)]
        counts = self._counts[places]
        for best in np.argsort(counts)[::-1][:_MOST_COMPARED].tolist():
            start, end = self._starts[places[best] : places[best] + 2].tolist()
            if abs(end - start - len(word)) <= edits:
                other = _text(self._folded[start:end])
                yield Correction(_text(self._written[start:end]), _edits(word, other), int(counts[best]))


def is_word(folded: str) -> bool:
    """Return whether a folded text is what can be corrected, or a correction: letters alone, neither few nor many."""
    return (
        SHORTEST <= len(folded) <= LONGEST and folded.isalpha() and max(folded) <= "\uffff" and not is_spaceless(folded)
    )


def _without_sign(word: str) -> Sequence[str]:
    return words_within(word) if has_sign(word) else (word,)


def _is_derived(word: str, other: str) -> bool:
    """Return whether one of two words goes on where the other begins or ends: uncultured is no mistake for cultured."""
    shorter, longer = sorted((word, other), key=len)
    return longer.startswith(shorter) or longer.endswith(shorter)


def _table(
    lengths: npt.NDArray[np.uint8], folded: Letters, is_frequent: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the hash of every rest, ascending, and the word that it is of, both uint32 of one length."""
    found = [np.empty(0, np.uint64)]
    first = start = 0
    for length, count in enumerate(np.bincount(lengths).tolist()):
        words = folded[start : start + count * length].reshape(count, length)
        places = np.arange(first, first + count, dtype=np.uint64)
        for kept in chain(*_rests(length, 2)) if count else ():
            of = slice(None) if len(kept) >= length - 1 else is_frequent[first : first + count]
            found.append(_hashes(words[of][:, kept]).astype(np.uint64) << np.uint64(32) | places[of])
        first, start = first + count, start + count * length
    table = np.concatenate(found)
    table.sort()
    return (table >> np.uint64(32)).astype(np.uint32), table.astype(np.uint32)


@cache
def _rests(length: int, edits: int) -> list[npt.NDArray[np.intp]]:
    """The places of the letters that are left of a word: (ways, length) with none taken out, with one, and so on."""
    sizes = range(length, max(length - edits, 1) - 1, -1)
    return [np.array(list(combinations(range(length), size)), np.intp) for size in sizes]


def _hashes(words: Letters) -> npt.NDArray[np.uint32]:
    """Return a hash of words of one length (n, length), uint32 (n,): the upper half of a polynomial."""
    total = np.full(len(words), words.shape[1], np.uint64)
    for column in words.T:
        total = (total + column) * np.uint64(_MULTIPLIER)
    return (total >> np.uint64(32)).astype(np.uint32)


def _letters(text: str) -> Letters:
    return np.frombuffer(text.encode("utf-16-le"), np.uint16)


def _text(letters: Letters) -> str:
    return letters.tobytes().decode("utf-16-le", "replace")


def _edits(one: str, other: str) -> int:
    """Return the edits between two words: their optimal string alignment distance (Damerau 1964)."""
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, its in enumerate(other, 1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and its == one[i - 2]:
                least = min(least, earlier[j - 2] + 1)
            row.append(least)
    return row[-1]
