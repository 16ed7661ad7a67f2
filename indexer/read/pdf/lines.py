"""Words to pieces of lines: what stands on one base line with no more than a space between."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from indexer.read.pdf.letters import Word

HYPHEN = "\u00ad"  # before a hyphen that ended a line, until the document tells whether it belongs there
_ENDS_IN_HYPHEN = re.compile(r"[^\W\d_][-\u2010]$")
_WIDE_SCRIPT = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f]")
_SPACE = 1.0  # of the size: a gap that parts pieces
_TIGHT = 0.45  # of the size: a gap that parts none, in whatever order the file has them
_SAME_LINE = 0.3  # of the size: words whose base lines are nearer than this
_RAISED = 0.65  # of the size: and those that are smaller, above or below the line


class Line(NamedTuple):
    """A piece of a line: all of it, or what is in one column or cell."""

    words: tuple[Word, ...]
    left: float
    right: float
    base: float
    size: float
    is_bold: bool = False
    is_fixed: bool = False  # all of it is in type of one width, like code

    @property
    def top(self) -> float:
        """Upper edge, roughly."""
        return self.base + 0.75 * self.size

    @property
    def bottom(self) -> float:
        """Lower edge, roughly."""
        return self.base - 0.25 * self.size

    @property
    def text(self) -> str:
        """Words with a space between."""
        return " ".join(word.text for word in self.words)

    @property
    def is_prose(self) -> bool:
        """Whether it may be a line of running text."""
        return len(self.words) >= 3 and self.right - self.left >= 8 * self.size


@dataclass(slots=True)
class _Open:
    words: list[Word]
    right: float
    base: float
    size: float

    def takes(self, word: Word) -> bool:
        most = max(self.size, word.size)
        gap, rise = word.left - self.right, abs(word.base - self.base)
        if rise <= _SAME_LINE * most * 0.5:
            return -_SPACE * most <= gap <= _SPACE * most and word.left > self.words[-1].left
        is_script = rise <= _RAISED * most and abs(word.size - self.size) > 0.1 * most
        return is_script and -0.3 * most <= gap <= _TIGHT * most

    def add(self, word: Word) -> None:
        self.words.append(word)
        self.right = max(self.right, word.right)
        if word.size > 1.1 * self.size:
            self.base, self.size = word.base, word.size


def lines_of(words: Iterable[Word]) -> list[Line]:
    """Return the pieces of lines, from the top down and from left to right."""
    found: list[_Open] = []
    for word in words:
        if found and found[-1].takes(word):
            found[-1].add(word)
        else:
            found.append(_Open([word], word.right, word.base, word.size))
    return _joined([line_of(one.words, one.base, one.size) for one in found])


def line_of(words: Sequence[Word], base: float, size: float) -> Line:
    """Return words as a line."""
    length = sum(len(word.text) for word in words)
    size = _usual(words) or size
    heavy = sum(len(word.text) for word in words if word.is_bold)
    right = max(word.right for word in words)
    return Line(
        tuple(words), words[0].left, right, base, size, heavy > 0.8 * length, all(word.is_fixed for word in words)
    )


def _usual(words: Sequence[Word]) -> float:
    """Return the size that most characters of some words have, in points."""
    first = words[0].size
    if all(word.size == first for word in words):
        return first
    sizes: dict[float, int] = {}
    for word in words:
        sizes[word.size] = sizes.get(word.size, 0) + len(word.text)
    return max(sizes, key=lambda size: sizes[size])


def _joined(lines: list[Line]) -> list[Line]:
    """Lines with those joined that the file has in pieces, or not in order."""
    lines.sort(key=lambda line: (-line.base, line.left))
    found: list[Line] = []
    for row in rows_of(lines):
        last: Line | None = None
        for line in row:
            gap = line.left - last.right if last else 0.0
            if last and gap < -0.3 * last.size and (line.text in last.text or last.text in line.text):  # a shadow
                last = found[-1] = max(last, line, key=lambda one: len(one.words))
            elif last and -0.5 * last.size <= gap <= _TIGHT * max(last.size, line.size):
                words = sorted((*last.words, *line.words), key=lambda word: word.left)
                big = max(last, line, key=lambda one: (one.size, len(one.words)))
                last = line_of(words, big.base, big.size)
                found[-1] = last
            else:
                last = line
                found.append(line)
    return found


def rows_of(lines: Iterable[Line]) -> list[list[Line]]:
    """Return lines that stand on one base line, from left to right; the rows from the top down."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: -line.base):
        if rows and rows[-1][0].base - line.base <= _SAME_LINE * min(rows[-1][0].size, line.size):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=lambda line: line.left)
    return rows


def joined(text: str, after: str, *, is_wrapped: bool) -> str:
    """Return a text with the line after it."""
    if not is_wrapped:
        return f"{text}\n{after}"
    if _ENDS_IN_HYPHEN.search(text) and after[:1].isalnum():
        return f"{text[:-1]}{HYPHEN}{text[-1]}{after}" if after[0].isalpha() else text + after
    if _WIDE_SCRIPT.match(text[-1:]) and _WIDE_SCRIPT.match(after[:1]):
        return text + after
    return f"{text} {after}"
