"""Correct the words of queries by the vocabulary of a generation, and suggest its headings while a user types.

All files are mapped into memory. Words are sorted by length. `word-lengths.npy` has the length of each word, and
`word-counts.npy` the number of passages with the word. `word-folded.npy` has the letters of all words without accents,
`word-written.npy` with accents. Counting edits is slow, so words with very different letters are skipped by comparing
32-bit masks. Two edits are tried only for frequent words, because a rare word is seldom the intended one.

A title or heading completes a typed text if one of its words begins with the text. `heading-texts.npy` has titles and
headings as they are written, `heading-folded.npy` their folded words, in UTF-8 with a line feed after each title or
heading. `heading-uses.npy` has a row for each heading of each document: the number of the heading, the row of the first
chunk with it, and whether it is the title.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import bare_words, has_symbol, is_spaceless, words_within
from indexer.generation.lexical.letters import fold, fold_case
from indexer.generation.manifest import corrupt
from indexer.generation.rows import RowSet, read_arrays
from indexer.records import SEPARATOR

WORDS: dict[str, npt.DTypeLike] = {
    "word-lengths.npy": np.uint8, "word-counts.npy": np.uint32, "word-folded.npy": np.uint16,
    "word-written.npy": np.uint16,
}  # fmt: skip
_MIN_LETTERS, _MAX_LETTERS = 3, 40
_MIN_LETTERS_FOR_ONE_EDIT, _MIN_LETTERS_FOR_TWO_EDITS = 4, 8
_MAX_WORDS = 1 << 19
_MAX_WORDS_FOR_TWO_EDITS = 1 << 16
_MAX_COUNTED_SPELLINGS = 1 << 21
_MAX_CORRECTIONS = 3
_MIN_STEM_LETTERS, _MAX_ENDING_LETTERS = 4, 3
_MAX_COMPOUNDS = 8

_USE = np.dtype([("name", "<u4"), ("row", "<u4"), ("is_title", "?")])
HEADINGS: dict[str, npt.DTypeLike] = {
    "heading-texts.npy": np.uint8, "heading-folded.npy": np.uint8, "heading-uses.npy": _USE,
}  # fmt: skip
_MAX_HEADING_CHARS = 120
_SITE_HEADING_DOCUMENTS = 5  # a heading in at least this many documents belongs to the site layout
_END, _SPACE = b"\n", b" "

Letters = npt.NDArray[np.uint16]


class Correction(NamedTuple):
    """A word of the index, in lower case, that the user may have intended. `edits` is 0 if only accents differ."""

    word: str
    edits: int
    passages: int


def _likelihood(each: Correction) -> tuple[int, int, str]:
    return each.edits, -each.passages, each.word


class VocabularyWriter:
    """Counts the passages with each word. Drops rare words to limit the memory (Manku and Motwani 2002)."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._max_dropped_count = 0

    def add(self, words: Iterable[str]) -> None:
        """Count the distinct words of a passage, which are matches of `analysis.words`."""
        self._counts.update(set(words))
        while len(self._counts) > _MAX_COUNTED_SPELLINGS:
            self._max_dropped_count += 1
            limit = self._max_dropped_count
            self._counts = Counter({word: count for word, count in self._counts.items() if count > limit})

    def write(self, folder: Path) -> None:
        """Write the files; raises OSError if they cannot be written."""
        counts: Counter[str] = Counter()
        accented: dict[str, tuple[int, str]] = {}
        for word, count in self._counts.items():
            for spelled in words_within(word) if has_symbol(word) else (word,):
                if (folded := fold(spelled)) == spelled:
                    folded = spelled  # reuse the object, because an equal copy takes 60 bytes
                if not _is_word(folded):
                    continue
                counts[folded] += count
                written = fold_case(spelled)
                if written != folded and len(written) == len(folded) and max(written) <= "\uffff":
                    accented[folded] = max(accented.get(folded, (0, "")), (count, written))
        words = sorted(sorted(counts, key=counts.__getitem__, reverse=True)[:_MAX_WORDS], key=len)
        usual = {word: spelled for word, (count, spelled) in accented.items() if 2 * count > counts[word]}
        written = "".join(usual.get(word, word) for word in words)
        contents = list(map(len, words)), [counts[word] for word in words], _letters("".join(words)), _letters(written)
        for (name, kind), content in zip(WORDS.items(), contents, strict=True):
            np.save(folder / name, np.array(content, kind), allow_pickle=False)


class Vocabulary:
    """Looks up words in the files of a generation. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files of a `VocabularyWriter` into memory. Raises IndexCorrupt if their lengths do not match."""
        self._lengths, self._counts, self._folded, self._written = read_arrays(folder, WORDS)
        self._starts = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.uint32)])
        if len(self._counts) != len(self._lengths) or not len(self._folded) == len(self._written) == self._starts[-1]:
            raise corrupt(folder / next(iter(WORDS)), "does not match the other files of words")
        bits = np.uint32(1) << (self._folded & 31).astype(np.uint32)
        self._masks = np.bitwise_or.reduceat(bits, self._starts[:-1]) if len(bits) else bits
        self._min_count_for_two_edits = 0
        if len(self._counts) > _MAX_WORDS_FOR_TWO_EDITS:
            place = len(self._counts) - _MAX_WORDS_FOR_TWO_EDITS
            self._min_count_for_two_edits = np.partition(self._counts, place)[place]

    def corrections(self, word: str, is_allowed: Callable[[str], bool] = lambda word: True) -> list[Correction]:
        """Return up to three corrections of a word that is not in the index, the likeliest first.

        Corrections are sorted by the number of edits, then by the number of passages. An edit inserts, deletes or
        replaces a letter, or exchanges two adjacent letters. A word of 4 to 7 letters may have one edit, and a longer
        word two. Words with digits or symbols are not corrected.
        """
        if not _is_word(word := fold(word)):
            return []
        max_edits = 0 if len(word) < _MIN_LETTERS_FOR_ONE_EDIT else 1 if len(word) < _MIN_LETTERS_FOR_TWO_EDITS else 2
        for edits in range(min(max_edits, 1), max_edits + 1):
            if corrections := [each for each in self._within(word, edits) if is_allowed(each.word)]:
                return sorted(corrections, key=_likelihood)[:_MAX_CORRECTIONS]
        return []

    def compounds(self, stem: str, *, allow_any_rest: bool) -> list[Correction]:
        """Return up to eight compounds in the index that contain a word, the most frequent first.

        A compound begins with the word's stem, or ends with the stem and an ending of up to three letters.

        Args:
            stem: the folded and stemmed word. Under four letters, it has no compounds: too many words contain it.
            allow_any_rest: whether the rest of a compound may be any letters, for languages that write compounds as
                one word. Otherwise the rest must be a word of the index.
        """
        if len(stem) < _MIN_STEM_LETTERS or not _is_word(stem):
            return []
        letters = _letters(stem)
        mask = np.bitwise_or.reduce(np.uint32(1) << (letters & 31).astype(np.uint32))
        first = int(np.searchsorted(self._lengths, len(stem) + _MIN_LETTERS))
        longer = np.flatnonzero((self._masks[first:] & mask) == mask) + first
        compounds = dict[str, Correction]()
        for ending in range(-1, _MAX_ENDING_LETTERS + 1):  # letters after the stem, or -1 for words that begin with it
            starts = self._starts[longer].astype(np.int64)
            lengths = self._lengths[longer].astype(np.int64)
            offsets = np.zeros_like(starts) if ending < 0 else lengths - len(stem) - ending
            has_room = offsets >= (_MIN_LETTERS if ending >= 0 else 0)
            numbers, places = longer[has_room], (starts + offsets)[has_room]
            for letter in letters.tolist():
                is_same = self._folded[places] == letter
                numbers, places = numbers[is_same], places[is_same] + 1
            for number in numbers.tolist():
                start, end = int(self._starts[number]), int(self._starts[number + 1])
                word = self._folded[start:end].tobytes().decode("utf-16-le", "replace")
                rest = word[len(stem) :] if ending < 0 else word[: len(word) - len(stem) - ending]
                if allow_any_rest or self._has(rest):
                    written = self._written[start:end].tobytes().decode("utf-16-le", "replace")
                    compounds[word] = Correction(written, 0, int(self._counts[number]))
        return sorted(compounds.values(), key=_likelihood)[:_MAX_COMPOUNDS]

    def _has(self, word: str) -> bool:
        return len(word) >= _MIN_LETTERS and any(each.edits == 0 for each in self._within(word, 0))

    def _within(self, word: str, max_edits: int) -> Iterator[Correction]:
        letters = _letters(word)
        first, last = np.searchsorted(self._lengths, [len(word) - max_edits, len(word) + max_edits + 1])
        mask = np.bitwise_or.reduce(np.uint32(1) << (letters & 31).astype(np.uint32))
        are_alike = np.bitwise_count(self._masks[first:last] ^ mask) <= 2 * max_edits  # an edit changes up to two bits
        if max_edits > 1:
            are_alike &= self._counts[first:last] >= self._min_count_for_two_edits
        places = np.flatnonzero(are_alike) + first
        starts, lengths = self._starts[places].astype(np.int64), self._lengths[places].astype(np.int64)
        columns = np.arange(len(word) + max_edits)[:, np.newaxis]
        candidates = self._folded[np.minimum(starts + columns, len(self._folded) - 1)]
        edits = _edits(letters, candidates, lengths, max_edits)
        for near in np.flatnonzero(edits <= max_edits).tolist():
            written = self._written[starts[near] : starts[near] + lengths[near]]
            text = written.tobytes().decode("utf-16-le", "replace")
            yield Correction(text, int(edits[near]), int(self._counts[places[near]]))


def likeliest(methods: Sequence[Callable[..., list[Correction]]], *args: Any, **options: Any) -> list[Correction]:
    """Call the same method of several vocabularies, and merge the corrections as if from one vocabulary."""
    returned = [method(*args, **options) for method in methods]
    passages = Counter[tuple[int, str]]()
    for each in chain(*returned):
        passages[each.edits, each.word] += each.passages
    merged = (Correction(word, edits, count) for (edits, word), count in passages.items())
    return sorted(merged, key=_likelihood)[: max(map(len, returned), default=0)]


def _is_word(folded: str) -> bool:
    """Return whether a folded text can be corrected or be a correction. It must consist of 3 to 40 letters."""
    is_long_enough = _MIN_LETTERS <= len(folded) <= _MAX_LETTERS
    return is_long_enough and folded.isalpha() and max(folded) <= "\uffff" and not is_spaceless(folded)


def _letters(text: str) -> Letters:
    return np.frombuffer(text.encode("utf-16-le"), np.uint16)


def _edits(word: Letters, candidates: Letters, lengths: npt.NDArray[np.int64], max_edits: int) -> npt.NDArray[np.int8]:
    """Return the optimal string alignment distance (Damerau 1964) of each column of candidates to a word, int8 (n,)."""
    far = max_edits + 1
    earlier = row = np.full((len(candidates) + 1, len(lengths)), far, np.int8)
    row[:far] = np.arange(far)[:, np.newaxis]
    for i, letter in enumerate(word, 1):
        before, row = row, np.full_like(row, far)
        row[0] = min(i, far)
        for j in range(max(1, i - max_edits), min(len(candidates), i + max_edits) + 1):
            row[j] = np.minimum(before[j - 1] + (candidates[j - 1] != letter), np.minimum(before[j], row[j - 1]) + 1)
            if i > 1 and j > 1:
                is_exchanged = (candidates[j - 2] == letter) & (candidates[j - 1] == word[i - 2])
                row[j] = np.where(is_exchanged, np.minimum(row[j], earlier[j - 2] + 1), row[j])
        earlier = before
    return row[lengths, np.arange(len(lengths))]


class Heading(NamedTuple):
    """A title or heading that completes a typed text. The likeliest has the lowest `order`."""

    order: int
    text: str
    is_title: bool


class HeadingWriter:
    """Collects the titles and headings of chunks, which must be added in row order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._uses: tuple[array[int], array[int], array[int]] = array("I"), array("I"), array("B")
        self._document = ""
        self._document_names: set[str] = set()

    def add(self, row: int, document: str, title: str, section: str) -> None:
        """Add the title of a chunk, and the last heading of its heading path, which is `section`."""
        if document != self._document:
            self._document = document
            self._document_names.clear()
        for name in (title, section.rpartition(SEPARATOR)[2]):
            if name not in self._document_names:
                self._document_names.add(name)
                plain = " ".join(name.split())
                if 0 < len(plain) <= _MAX_HEADING_CHARS:
                    number = self._numbers.setdefault(plain, len(self._numbers))
                    for column, value in zip(self._uses, (number, row, name == title), strict=True):
                        column.append(value)

    def write(self, folder: Path) -> None:
        """Write the files; raises OSError if they cannot be written."""
        uses = np.empty(len(self._uses[0]), _USE)
        for name, column in zip(_USE.names or (), self._uses, strict=True):
            uses[name] = column
        written = "".join(f"{name}\n" for name in self._numbers)
        folded = "".join(f"{' '.join(typed_words(name))}\n" for name in self._numbers)
        texts = (np.frombuffer(text.encode("utf-8", "replace"), np.uint8) for text in (written, folded))
        for file, content in zip(HEADINGS, (*texts, uses), strict=True):
            np.save(folder / file, content, allow_pickle=False)


# For each title or heading: number of documents with it, at most `_SITE_HEADING_DOCUMENTS`; whether it is a title
_Usage = tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]


class Headings:
    """Looks up titles and headings in the files of a generation. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Map the files into memory. Raises IndexCorrupt if their lengths do not match."""
        self._texts, self._folded, self._uses = read_arrays(folder, HEADINGS)
        self._ends, self._folded_ends = (np.flatnonzero(text == _END[0]) for text in (self._texts, self._folded))
        self._starts, self._folded_starts = (
            np.concatenate([[0], ends + 1])[:-1] for ends in (self._ends, self._folded_ends)
        )
        self._count = len(self._ends)
        highest = int(self._uses["name"].max(initial=0))
        if len(self._folded_ends) != self._count or highest >= max(1, self._count):
            raise corrupt(folder / next(iter(HEADINGS)), "does not match the other files of headings")
        self._all = self._usage_of(self._uses)
        self._usage_by_rows: WeakKeyDictionary[RowSet, _Usage] = WeakKeyDictionary()

    def find(self, typed: str, count: int, allowed: RowSet | None = None) -> list[Heading]:
        """Return titles and headings of allowed rows that complete a typed text, the likeliest first.

        Texts that begin with the typed text come before texts with a later word that begins with it. In both groups,
        headings that many documents share come last, titles come before headings, and short texts before long ones.
        """
        if not (begun := " ".join(typed_words(typed))):
            return []
        if allowed is not None and allowed not in self._usage_by_rows:
            is_allowed = allowed.contains(self._uses["row"].astype(np.int64))
            self._usage_by_rows[allowed] = self._usage_of(self._uses[is_allowed])
        documents, is_title = self._all if allowed is None else self._usage_by_rows[allowed]
        places = self._find_offsets(begun)
        names = np.searchsorted(self._folded_ends, places)
        tiers = np.where(self._folded_starts[names] == places, 0, 1)
        is_allowed = documents[names] > 0
        names, tiers = names[is_allowed], tiers[is_allowed]
        is_no_title = ~is_title[names]
        is_site_heading = (documents[names] >= _SITE_HEADING_DOCUMENTS) & is_no_title
        lengths = self._ends[names] - self._starts[names]
        order = (((tiers * 2 + is_site_heading) * 2 + is_no_title) << 16) + lengths
        best: dict[str, Heading] = {}
        for place in np.argsort(order, kind="stable")[: 4 * count].tolist():
            name = int(names[place])
            text = self._texts[self._starts[name] : self._ends[name]].tobytes().decode("utf-8", "replace")
            best.setdefault(fold(text), Heading(int(order[place]), text, bool(is_title[name])))
        return sorted(list(best.values())[:count])

    @cached_property
    def _words(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
        """Return the first two bytes of each word in `_folded`, in ascending order, and the offset of each word."""
        inner = np.flatnonzero(self._folded == _SPACE[0]) + 1
        places = np.concatenate([self._folded_starts[self._folded_ends > self._folded_starts], inner])
        keys = self._folded[places].astype(np.uint16) << 8 | self._folded[places + 1]
        order = np.argsort(keys, kind="stable")
        return keys[order], places[order]

    def _find_offsets(self, text: str) -> npt.NDArray[np.int64]:
        """Return the offsets of the words in `_folded` at which this text occurs."""
        begun = text.encode()
        keys, places = self._words
        low = int.from_bytes(begun[:2].ljust(2, b"\0"), "big")
        high = low if len(begun) > 1 else low | 0xFF
        places = places[np.searchsorted(keys, np.uint16(low)) : np.searchsorted(keys, np.uint16(high), side="right")]
        for offset, byte in enumerate(begun[2:], 2):  # stays within bounds: no match goes beyond a line feed
            places = places[self._folded[places + offset] == byte]
        return places

    def _usage_of(self, uses: npt.NDArray[np.void]) -> _Usage:
        is_title = np.zeros(self._count, np.bool_)
        is_title[uses["name"][uses["is_title"]]] = True
        documents = np.minimum(np.bincount(uses["name"], minlength=self._count), _SITE_HEADING_DOCUMENTS)
        return documents.astype(np.uint8), is_title


def typed_words(text: str) -> list[str]:
    """Return the folded words of a typed text, a title or a heading."""
    folded = (fold(word) for word in bare_words(text).findall(text))
    return [piece for word in folded for piece in word.replace("_", " ").split()]
