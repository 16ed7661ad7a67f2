"""Titles and headings of a generation, to suggest while somebody types.

Each is found by the words that it begins with, at any of its words, and by all typed words in any order. Arrays mapped
into memory: `heading-texts.npy`, the names as they are written, and `heading-folded.npy`, their words folded, with a
space between two, both in UTF-8 with a line feed behind each; `heading-uses.npy`, which document has which name: the
number of the name, the first row, and whether it is the title.
"""

from array import array
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from indexer.generation.lexical.analysis import bare_words, fold
from indexer.generation.manifest import corrupt
from indexer.generation.rows import RowSet, read_arrays
from indexer.records import SEPARATOR

_USE = np.dtype([("name", "<u4"), ("row", "<u4"), ("is_title", "?")])
KINDS: dict[str, npt.DTypeLike] = {
    "heading-texts.npy": np.uint8, "heading-folded.npy": np.uint8, "heading-uses.npy": _USE,
}  # fmt: skip
_LONGEST = 120  # characters of a name; what is longer is no heading that anybody types
_MANY = 5  # documents from which a heading belongs to the site rather than to a subject
_END, _SPACE = b"\n", b" "


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
        for name in (title, section.rpartition(SEPARATOR)[2]):
            if name not in self._seen:
                self._seen.add(name)
                plain = " ".join(name.split())
                if 0 < len(plain) <= _LONGEST:
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
        for file, content in zip(KINDS, (*texts, uses), strict=True):
            np.save(folder / file, content, allow_pickle=False)


# Of each name: how many of the allowed documents have it, as far as that counts, and whether it is a title
_View = tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]


class Headings:
    """The names of a published folder; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Map the files; raises IndexCorrupt if they are not of `HeadingWriter`."""
        self._texts, self._folded, self._uses = read_arrays(folder, KINDS)
        self._ends, self._folded_ends = (np.flatnonzero(text == _END[0]) for text in (self._texts, self._folded))
        self._starts, self._folded_starts = (
            np.concatenate([[0], ends + 1])[:-1] for ends in (self._ends, self._folded_ends)
        )
        self._count = len(self._ends)
        highest = int(self._uses["name"].max(initial=0))
        if len(self._folded_ends) != self._count or highest >= max(1, self._count):
            raise corrupt(folder / next(iter(KINDS)), "does not match the other headings")
        self._all = self._view(self._uses)
        self._narrowed: WeakKeyDictionary[RowSet, _View] = WeakKeyDictionary()

    def find(self, typed: str, most: int, allowed: RowSet | None = None) -> list[Heading]:
        """Return the names that go on as was typed, the likeliest first; one of the allowed rows must have them.

        First names that begin with it, then names with a word that does, then names with all words in any order. Among
        these, names of few documents come first, then titles, then short ones.
        """
        if not (begun := typed_words(typed)):
            return []
        documents, is_title = self._all
        if allowed is not None:
            view = self._narrowed.get(allowed)
            if view is None:
                view = self._view(self._uses[allowed.contains(self._uses["row"].astype(np.int64))])
                self._narrowed[allowed] = view
            documents, is_title = view
        places = self._beginning(" ".join(begun))
        names = np.searchsorted(self._folded_ends, places)
        tiers = np.where(self._folded_starts[names] == places, 0, 1)
        if len(begun) > 1:
            has_all = np.ones(self._count, np.bool_)
            for word in set(begun):
                found = np.searchsorted(self._folded_ends, self._beginning(word))
                has_all &= np.bincount(found, minlength=self._count) > 0
            together = np.flatnonzero(has_all)
            names, tiers = np.concatenate([names, together]), np.concatenate([tiers, np.full(len(together), 2)])
        is_allowed = documents[names] > 0
        names, tiers = names[is_allowed], tiers[is_allowed]
        is_no_title = ~is_title[names]
        is_usual = (documents[names] >= _MANY) & is_no_title
        lengths = self._ends[names] - self._starts[names]
        order = (((tiers * 2 + is_usual) * 2 + is_no_title) << 16) + lengths
        best: dict[str, Heading] = {}
        for place in np.argsort(order, kind="stable")[: 4 * most].tolist():
            name = int(names[place])
            text = self._texts[self._starts[name] : self._ends[name]].tobytes().decode("utf-8", "replace")
            best.setdefault(fold(text), Heading(int(order[place]), text, bool(is_title[name])))
        return sorted(list(best.values())[:most])

    @cached_property
    def _words(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
        """The first two bytes of all words of the folded names, ascending, and the places where these words begin."""
        inner = np.flatnonzero(self._folded == _SPACE[0]) + 1
        places = np.concatenate([self._folded_starts[self._folded_ends > self._folded_starts], inner])
        keys = self._folded[places].astype(np.uint16) << 8 | self._folded[places + 1]
        order = np.argsort(keys, kind="stable")
        return keys[order], places[order]

    def _beginning(self, text: str) -> npt.NDArray[np.int64]:
        """Return the places where words begin that go on like a text."""
        begun = text.encode()
        keys, places = self._words
        low = int.from_bytes(begun[:2].ljust(2, b"\0"), "big")
        high = low if len(begun) > 1 else low | 0xFF
        places = places[np.searchsorted(keys, np.uint16(low)) : np.searchsorted(keys, np.uint16(high), side="right")]
        for offset, byte in enumerate(begun[2:], 2):  # a name ends with a line feed, which no text has
            places = places[self._folded[places + offset] == byte]
        return places

    def _view(self, uses: npt.NDArray[np.void]) -> _View:
        is_title = np.zeros(self._count, np.bool_)
        is_title[uses["name"][uses["is_title"]]] = True
        return np.minimum(np.bincount(uses["name"], minlength=self._count), _MANY).astype(np.uint8), is_title


def typed_words(text: str) -> list[str]:
    """Return the words of what is typed, or of a name, folded."""
    folded = (fold(word) for word in bare_words(text).findall(text))
    return [part for word in folded for part in word.replace("_", " ").split()]
