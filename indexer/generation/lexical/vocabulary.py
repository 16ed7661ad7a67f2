"""The words of a generation as they are written, to correct words of a query that are not among them.

Arrays mapped into memory, ordered by length of the word: `word-lengths.npy`; `word-counts.npy`, the passages that have
it; `word-folded.npy` and `word-written.npy`, its letters without and with accents, one word after the other. A word
with few edits has most letters in common, which 32 bits a word tell; only then its edits are counted. Two edits are
looked for in frequent words alone: a rare word is seldom the one that was meant.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import fold, fold_case, has_sign, is_spaceless, words_within
from indexer.generation.manifest import corrupt
from indexer.generation.rows import read_arrays

KINDS: dict[str, npt.DTypeLike] = {
    "word-lengths.npy": np.uint8, "word-counts.npy": np.uint32, "word-folded.npy": np.uint16,
    "word-written.npy": np.uint16,
}  # fmt: skip
_SHORTEST, _LONGEST = 3, 24  # letters of a word; names and numbers are not corrected
_ONE_EDIT, _TWO_EDITS = 4, 8  # letters from which so many may be wrong
_MOST_WORDS = 1 << 19  # the most frequent ones
_FREQUENT = 1 << 16  # of these, those in which two edits are looked for
_MOST_COUNTED = 1 << 21  # spellings counted at a time while a generation is written
_MOST_CORRECTIONS = 3  # of a word
_MANY = 10_000  # words from which a rare correction must begin as the word does

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
        accented: dict[str, tuple[int, str]] = {}  # the most frequent spelling of those that have one
        for word, count in self._counts.items():
            for spelled in words_within(word) if has_sign(word) else (word,):
                if (folded := fold(spelled)) == spelled:
                    folded = spelled  # the same object: most words are spelled so, and a copy of each takes 60 bytes
                if not _is_word(folded):
                    continue
                counts[folded] += count
                written = fold_case(spelled)
                if written != folded and len(written) == len(folded) and max(written) <= "\uffff":
                    accented[folded] = max(accented.get(folded, (0, "")), (count, written))
        words = sorted(sorted(counts, key=counts.__getitem__, reverse=True)[:_MOST_WORDS], key=len)
        usual = {word: spelled for word, (count, spelled) in accented.items() if 2 * count > counts[word]}
        written = "".join(usual.get(word, word) for word in words)
        contents = list(map(len, words)), [counts[word] for word in words], _letters("".join(words)), _letters(written)
        for (name, kind), content in zip(KINDS.items(), contents, strict=True):
            np.save(folder / name, np.array(content, kind), allow_pickle=False)


class Vocabulary:
    """The words of a published folder; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Map the files; raises IndexCorrupt if they are not what `VocabularyWriter` writes."""
        self._lengths, self._counts, self._folded, self._written = read_arrays(folder, KINDS)
        self._starts = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.uint32)])
        if len(self._counts) != len(self._lengths) or not len(self._folded) == len(self._written) == self._starts[-1]:
            raise corrupt(folder / next(iter(KINDS)), "does not match the other words")
        bits = np.uint32(1) << (self._folded & 31).astype(np.uint32)  # the letters of each word, one of 32 for each
        self._masks = np.bitwise_or.reduceat(bits, self._starts[:-1]) if len(bits) else bits
        is_large = len(self._counts) > _FREQUENT
        # passages that a word must have for two edits to be looked for
        self._least_count = np.partition(self._counts, -_FREQUENT)[-_FREQUENT] if is_large else 0

    def corrections(self, word: str, is_allowed: Callable[[str], bool] = lambda word: True) -> list[Correction]:
        """Return up to three words that may have been meant by one that is not in the index, the likeliest first.

        Words with the fewest edits (a letter inserted, left out or replaced, or two neighbours exchanged) come first,
        then words in most passages. Words of 4 letters may have one edit, of 8 letters two; names and numbers are left
        alone. Where there are many words, one that a single passage has must begin alike.
        """
        if not _is_word(word := fold(word)):
            return []
        many = len(self._counts) >= _MANY
        most = 0 if len(word) < _ONE_EDIT else 1 if len(word) < _TWO_EDITS else 2
        for edits in range(min(most, 1), most + 1):
            found = [each for each in self._within(word, edits) if is_allowed(each.word)]
            if edits > 1:
                for shorter, longer in (sorted((word, fold(each.word)), key=len) for each in found):
                    if longer.startswith(shorter) or longer.endswith(shorter):
                        return []  # uncultured is no mistake for cultured
            if found := [each for each in found if each.passages > 1 or not many or each.word[0] == word[0]]:
                return sorted(found, key=lambda each: (each.edits, -each.passages, each.word))[:_MOST_CORRECTIONS]
        return []

    def _within(self, word: str, most: int) -> Iterator[Correction]:
        """Yield the words that differ from a word in at most so many edits."""
        letters = _letters(word)
        first, last = np.searchsorted(self._lengths, [len(word) - most, len(word) + most + 1])
        mask = np.bitwise_or.reduce(np.uint32(1) << (letters & 31).astype(np.uint32))
        are_alike = np.bitwise_count(self._masks[first:last] ^ mask) <= 2 * most  # an edit changes two bits at most
        if most > 1:
            are_alike &= self._counts[first:last] >= self._least_count
        places = np.flatnonzero(are_alike) + first
        starts, lengths = self._starts[places].astype(np.int64), self._lengths[places].astype(np.int64)
        columns = np.arange(len(word) + most)[:, np.newaxis]
        others = self._folded[np.minimum(starts + columns, len(self._folded) - 1)]
        edits = _edits(letters, others, lengths, most)
        for near in np.flatnonzero(edits <= most).tolist():
            written = self._written[starts[near] : starts[near] + lengths[near]]
            text = written.tobytes().decode("utf-16-le", "replace")
            yield Correction(text, int(edits[near]), int(self._counts[places[near]]))


def _is_word(folded: str) -> bool:
    """Return whether a folded text is what can be corrected, or a correction: letters alone, neither few nor many."""
    is_long_enough = _SHORTEST <= len(folded) <= _LONGEST
    return is_long_enough and folded.isalpha() and max(folded) <= "\uffff" and not is_spaceless(folded)


def _letters(text: str) -> Letters:
    return np.frombuffer(text.encode("utf-16-le"), np.uint16)


def _edits(word: Letters, others: Letters, lengths: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int8]:
    """Return the optimal string alignment distances (Damerau 1964) between a word and others, int8 (n,)."""
    # others: (len(word) + most, n), the letters of each in a column; more edits than `most` are told as `most` + 1
    far = most + 1
    earlier = row = np.full((len(others) + 1, len(lengths)), far, np.int8)
    row[:far] = np.arange(far)[:, np.newaxis]
    for i, letter in enumerate(word, 1):
        before, row = row, np.full_like(row, far)
        row[0] = min(i, far)
        for j in range(max(1, i - most), min(len(others), i + most) + 1):
            row[j] = np.minimum(before[j - 1] + (others[j - 1] != letter), np.minimum(before[j], row[j - 1]) + 1)
            if i > 1 and j > 1:
                is_exchanged = (others[j - 2] == letter) & (others[j - 1] == word[i - 2])
                row[j] = np.where(is_exchanged, np.minimum(row[j], earlier[j - 2] + 1), row[j])
        earlier = before
    return row[lengths, np.arange(len(lengths))]
