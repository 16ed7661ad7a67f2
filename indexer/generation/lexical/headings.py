"""Titles and headings of a generation, to suggest while somebody types.

Each is found by the words that it begins with, at any of its words, and by all typed words in any order. Arrays mapped
into memory: `heading-texts.npy`, the names as they are written, and `heading-folded.npy`, their words folded, with a
space between two, both in UTF-8 with a line feed behind each; `heading-uses.npy`, which document has which name: the
number of the name, the first row, and whether it is the title.
"""

from array import array
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.generation.arrays import read_array
from indexer.generation.lexical.analysis import bare_words, cached_method, fold
from indexer.generation.manifest import corrupt
from indexer.records import SEPARATOR
from indexer.rowset import RowSet

FILES = tuple(f"heading-{name}.npy" for name in ("texts", "folded", "uses"))
_USE = np.dtype([("name", "<u4"), ("row", "<u4"), ("is_title", "?")])
_TYPES: tuple[Any, ...] = (np.uint8, np.uint8, _USE)
_LONGEST = 120  # characters of a name; what is longer is no heading that anybody types
_MANY = 5  # documents from which a heading belongs to the site rather than to a subject
_VIEWS = 8  # filters, whose names are remembered
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
        uses = np.empty(len(self._uses[0]), _USE)
        for name, column in zip(_USE.names or (), self._uses, strict=True):
            uses[name] = column
        texts = [b"".join(made(name) + _END for name in self._numbers) for made in (_utf8, _folded)]
        arrays = (*(np.frombuffer(text, np.uint8) for text in texts), uses)
        for file, content in zip(FILES, arrays, strict=True):
            np.save(folder / file, content, allow_pickle=False)


class _View(NamedTuple):
    """The uses of names in the documents that a filter allows, by the number of the name."""

    documents: npt.NDArray[np.uint8]  # that have it, as far as that counts; of 0 it is not found
    is_title: npt.NDArray[np.bool_]


class Headings:
    """The names of a published folder; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Map the files; raises IndexCorrupt if they are not of `HeadingWriter`."""
        arrays = [read_array(folder / name) for name in FILES]
        for name, found, kind in zip(FILES, arrays, _TYPES, strict=True):
            if found.dtype != kind or found.ndim != 1:
                raise corrupt(folder / name, "is an array of another kind")
        self._texts, self._folded, self._uses = arrays
        self._text_ends, self._folded_ends = (np.flatnonzero(text == _END[0]) for text in arrays[:2])
        self._text_starts, self._folded_starts = (
            np.concatenate([[0], ends + 1])[:-1] for ends in (self._text_ends, self._folded_ends)
        )
        self._count = len(self._text_ends)
        highest = int(self._uses["name"].max(initial=0))
        if len(self._folded_ends) != self._count or highest >= max(1, self._count):
            raise corrupt(folder / FILES[0], "does not match the other headings")
        self._narrowed = cached_method(self._view_of, _VIEWS)

    def find(self, typed: Sequence[str], most: int, allowed: RowSet | None = None) -> list[Heading]:
        """Return the names that go on as was typed, the likeliest first.

        First names that begin with it, then names with a word that does, then names with all words in any order. Among
        these, names of few documents come first, then titles, then short ones.

        Args:
            typed: folded words, at least one, of which the last may be only begun.
            most: how many to return.
            allowed: rows of which one must have the name; None means all.
        """
        view = self._all if allowed is None else self._narrowed(allowed)
        places = self._beginning(" ".join(typed))
        names = self._names_at(places)
        tiers = np.where(self._folded_starts[names] == places, 0, 1)
        if len(typed) > 1:
            has_all = np.ones(self._count, np.bool_)
            for word in set(typed):
                has_all &= np.bincount(self._names_at(self._beginning(word)), minlength=self._count) > 0
            together = np.flatnonzero(has_all)
            names, tiers = np.concatenate([names, together]), np.concatenate([tiers, np.full(len(together), 2)])
        is_allowed = view.documents[names] > 0
        order = self._orders(view, names[is_allowed], tiers[is_allowed])
        names = names[is_allowed]
        best: dict[str, Heading] = {}
        for place in np.argsort(order, kind="stable")[: 4 * most].tolist():
            name = int(names[place])
            text = self._texts[self._text_starts[name] : self._text_ends[name]].tobytes().decode("utf-8", "replace")
            best.setdefault(fold(text), Heading(int(order[place]), text, bool(view.is_title[name])))
        return list(best.values())[:most]

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

    def _names_at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._folded_ends, places)

    @cached_property
    def _all(self) -> _View:
        return self._view(self._uses)

    def _view_of(self, allowed: RowSet) -> _View:
        return self._view(self._uses[allowed.contains(self._uses["row"].astype(np.int64))])

    def _view(self, uses: npt.NDArray[np.void]) -> _View:
        is_title = np.zeros(self._count, np.bool_)
        is_title[uses["name"][uses["is_title"]]] = True
        documents = np.minimum(np.bincount(uses["name"], minlength=self._count), _MANY)
        return _View(documents.astype(np.uint8), is_title)

    def _orders(self, view: _View, names: npt.NDArray[np.int64], tiers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        lengths = self._text_ends[names] - self._text_starts[names]
        is_no_title = ~view.is_title[names]
        is_usual = (view.documents[names] >= _MANY) & is_no_title
        return np.asarray((((tiers * 2 + is_usual) * 2 + is_no_title) << 16) + lengths, np.int64)


def typed_words(text: str) -> list[str]:
    """Return the words of what is typed, or of a name, folded."""
    folded = (fold(word) for word in bare_words(text).findall(text))
    return [part for word in folded for part in word.replace("_", " ").split()]


def _folded(name: str) -> bytes:
    return _utf8(" ".join(typed_words(name)))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
