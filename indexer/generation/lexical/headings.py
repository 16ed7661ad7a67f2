"""Titles and headings of a generation, to suggest while somebody types.

Each is found by the words that it begins with, at any of its words, and by all words of what was typed in any order.
Arrays mapped into memory: `heading-texts.npy`, the names as they are written, and `heading-folded.npy`, their words
folded, with a space between two, both in UTF-8 with a line feed behind each; `heading-words.npy`, where a word begins
there, by the alphabet of what follows, and `heading-names.npy`, the name it is of; `heading-uses.npy`, which name
stands in which document: the number of the name, the first row, and whether it is the title.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import bare_words, cached_method, fold
from indexer.generation.manifest import corrupt
from indexer.generation.rows import read_array
from indexer.records import SEPARATOR
from indexer.rowset import RowSet

FILES = tuple(f"heading-{name}.npy" for name in ("texts", "folded", "words", "names", "uses"))
_USE = np.dtype([("name", "<u4"), ("row", "<u4"), ("is_title", "?")])
_TYPES: tuple[Any, ...] = (np.uint8, np.uint8, np.uint32, np.uint32, _USE)
_LONGEST = 120  # characters of a name; what is longer is no heading that anybody types
_SORTED = 48  # bytes by which words are in order
_MANY = 5  # documents from which a heading belongs to the site rather than to a subject
_VIEWS = 8  # filters, whose names are remembered
_END = b"\n"

Numbers = npt.NDArray[np.uint32]


class Heading(NamedTuple):
    """A title or heading, with where it stands among others that were found: the lowest first."""

    order: int
    text: str
    is_title: bool


class HeadingWriter:
    """Gathers the names of the chunks of a generation, in row order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._uses: tuple[array[int], array[int], array[int]] = array("I"), array("I"), array("B")
        self._document = ""
        self._seen: set[str] = set()  # names of this document

    def add(self, row: int, document: str, title: str, section: str) -> None:
        """Note the names of a chunk; `document` is the same for all of one document, and `section` a heading path."""
        if document != self._document:
            self._document = document
            self._seen.clear()
        leaf = section.rpartition(SEPARATOR)[2]
        for name in (title, leaf):
            if name not in self._seen:
                self._seen.add(name)
                plain = " ".join(name.split())
                if 0 < len(plain) <= _LONGEST:
                    number = self._numbers.setdefault(plain, len(self._numbers))
                    for column, value in zip(self._uses, (number, row, name == title), strict=True):
                        column.append(value)

    def write(self, folder: Path) -> None:
        """Write the files; raises OSError if they cannot be written."""
        texts = [name.encode("utf-8", "replace") + _END for name in self._numbers]
        folded = [_folded(name) + _END for name in self._numbers]
        ends = list(accumulate(map(len, folded), initial=0))
        beginnings = enumerate(zip(ends[:-1], folded, strict=True))
        starts = [(end + at, number) for number, (end, text) in beginnings for at in _word_starts(text)]
        places = np.array(starts, np.uint32).reshape(-1, 2)
        blob = b"".join(folded)
        keys = np.array([blob[at : at + _SORTED].partition(_END)[0] for at, _ in starts], f"S{_SORTED}")
        places = places[np.argsort(keys, kind="stable")]
        uses = np.empty(len(self._uses[0]), _USE)
        for name, column in zip(_USE.names or (), self._uses, strict=True):
            uses[name] = column
        arrays: list[npt.NDArray[Any]] = [
            np.frombuffer(b"".join(texts), np.uint8), np.frombuffer(blob, np.uint8), places[:, 0], places[:, 1], uses,
        ]  # fmt: skip
        for name, made in zip(FILES, arrays, strict=True):
            np.save(folder / name, np.ascontiguousarray(made), allow_pickle=False)


class _View:
    """The names that a filter allows: what is not allowed takes no part, not even in the time that it takes."""

    def __init__(self, words: Numbers, names: Numbers, documents: npt.NDArray[np.uint8], is_title: Any) -> None:
        self.words = words
        self.names = names
        self.documents = documents  # that have each name, as far as that counts
        self.is_title = is_title


class Headings:
    """The names of a published folder; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Map the files; raises IndexCorrupt if they are not of `HeadingWriter`."""
        arrays = [read_array(folder / name) for name in FILES]
        for name, found, kind in zip(FILES, arrays, _TYPES, strict=True):
            if found.dtype != kind or found.ndim != 1:
                raise corrupt(folder / name, "is an array of another kind")
        self._texts, self._folded, self._words, self._names, self._uses = arrays
        self._text_ends = _ends(self._texts)
        self._folded_ends = _ends(self._folded)
        count = len(self._text_ends)
        fits = len(self._words) == len(self._names) and len(self._folded_ends) == count
        largest = max(int(self._names.max(initial=0)), int(self._uses["name"].max(initial=0)))
        if not fits or (largest >= count and len(self._uses)) or int(self._words.max(initial=0)) > len(self._folded):
            raise corrupt(folder / FILES[0], "does not match the other headings")
        self._within = cached_method(self._narrowed, _VIEWS)

    def find(self, typed: Sequence[str], most: int, allowed: RowSet | None = None) -> list[Heading]:
        """Return the names that go on as was typed, the likeliest first.

        First those that begin with it, then those with a word that does, then those that have all words in any order.
        Among these, names of few documents come first, then titles, then short ones.

        Args:
            typed: folded words, at least one, of which the last may be only begun.
            most: how many to return.
            allowed: rows of which one must have the name; None means all.
        """
        view = self._all if allowed is None else self._within(allowed)
        phrase = " ".join(typed).encode()
        found = self._range(view, phrase)
        at, names = view.words[found], view.names[found]
        if len(phrase) > _SORTED:
            goes_on = [self._folded[start : start + len(phrase)].tobytes() == phrase for start in at.tolist()]
            at, names = at[goes_on], names[goes_on]
        begins = np.where(names > 0, self._folded_ends[names.astype(np.int64) - 1] + 1, 0) == at
        orders = [self._orders(view, names, np.where(begins, 0, 1))]
        if len(typed) > 1:
            each = sorted((view.names[self._range(view, word.encode())] for word in set(typed)), key=len)
            common = each[0]
            for others in each[1:]:
                has_other = np.zeros(len(self._text_ends), np.bool_)
                has_other[others] = True
                common = common[has_other[common]]
            common = np.unique(common)
            names = np.concatenate([names, common])
            orders.append(self._orders(view, common, np.full(len(common), 2)))
        order = np.concatenate(orders)
        kept = np.argpartition(order, 4 * most)[: 4 * most] if len(order) > 4 * most else np.arange(len(order))
        best: dict[str, Heading] = {}
        for place in kept[np.argsort(order[kept], kind="stable")].tolist():
            name = int(names[place])
            text = self._text(name)
            best.setdefault(fold(text), Heading(int(order[place]), text, bool(view.is_title[name])))
        return list(best.values())[:most]

    @cached_property
    def _all(self) -> _View:
        return self._view(self._uses, self._words, self._names)

    def _narrowed(self, allowed: RowSet) -> _View:
        uses = self._uses[allowed.contains(self._uses["row"].astype(np.int64))]
        has = np.zeros(len(self._text_ends), np.bool_)
        has[uses["name"]] = True
        kept = has[self._names]
        return self._view(uses, self._words[kept], self._names[kept])

    def _view(self, uses: npt.NDArray[np.void], words: Numbers, names: Numbers) -> _View:
        count = len(self._text_ends)
        is_title = np.zeros(count, np.bool_)
        is_title[uses["name"][uses["is_title"]]] = True
        return _View(
            words, names, np.minimum(np.bincount(uses["name"], minlength=count), _MANY).astype(np.uint8), is_title
        )

    def _range(self, view: _View, prefix: bytes) -> slice:
        """The words of a view after which a name goes on like this."""
        key = prefix[:_SORTED]

        def first(is_before: Callable[[bytes], bool]) -> int:
            low, high = 0, len(view.words)
            while low < high:
                middle = (low + high) // 2
                start = int(view.words[middle])
                if is_before(self._folded[start : start + len(key)].tobytes().partition(_END)[0]):
                    low = middle + 1
                else:
                    high = middle
            return low

        return slice(first(lambda found: found < key), first(lambda found: found <= key))

    def _orders(self, view: _View, names: Numbers, tier: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        place = names.astype(np.int64)
        length = self._text_ends[place] - np.where(place > 0, self._text_ends[place - 1] + 1, 0)
        usual = (view.documents[place] >= _MANY) & ~view.is_title[place]
        return np.asarray((((tier * 2 + usual) * 2 + ~view.is_title[place]) << 16) + length, np.int64)

    def _text(self, name: int) -> str:
        start = int(self._text_ends[name - 1]) + 1 if name else 0
        return self._texts[start : int(self._text_ends[name])].tobytes().decode("utf-8", "replace")


def typed_words(text: str) -> list[str]:
    """Return the words of what is typed, or of a name, folded."""
    folded = (fold(word) for word in bare_words(text).findall(text))
    return [part for word in folded for part in word.replace("_", " ").split()]


def _folded(name: str) -> bytes:
    return " ".join(typed_words(name)).encode("utf-8", "replace")


def _word_starts(folded: bytes) -> Iterator[int]:
    """Where the words of a name begin, its line feed left aside."""
    if len(folded) > 1:
        yield 0
    yield from (place + 1 for place, sign in enumerate(folded) if sign == 0x20)


def _ends(blob: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    return np.flatnonzero(blob == _END[0]).astype(np.int64)
