"""Group the words of a page into lines, and join letters that are set apart."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

# letters apart, or a word of which each letter is printed twice
APART = re.compile(r"(?<!\S)(?:[^\W\d_] [^\W\d_] [^\W\d_]{1,2}(?!\S)|([^\W\d_])\1(?!\1)([^\W\d_])\2)")
_MIN_PIECES = 3  # of a spaced word
_USUAL_SPACE = (0.2, 0.7)  # of the size: gaps as wide as an ordinary space
_JUMP = 0.12  # of the size: gaps between words are wider by this than those between letters
_VOWELS = frozenset("aeiouy")
_SHORT = re.compile(f"s{{{_MIN_PIECES},}}")
_SYMBOL = re.compile("[+=<>|~^*\u00b7\u00d7\u00f7\u2200-\u22ff]")  # of formulas
HYPHEN = "\u00ad"  # after a hyphen that ended a line, until the document tells whether it belongs there
_ENDS_IN_HYPHEN = re.compile(r"[^\W\d_][-\u2010]")
_WIDE_SCRIPT = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f]")
_TIGHT = 0.45  # of the size: a gap that parts no pieces, in whatever order the file has them


class Word(NamedTuple):
    """A run of characters without a space; points, from the lower left of the page as it is read."""

    text: str
    left: float
    right: float
    base: float  # of the line it stands on
    size: float
    is_bold: bool = False
    is_fixed: bool = False  # in type of which every letter is as wide as another


class Line(NamedTuple):
    """A piece of a line: all of it, or what is in one column or cell."""

    words: tuple[Word, ...]
    left: float
    right: float
    base: float
    size: float
    is_bold: bool = False
    is_fixed: bool = False

    @property
    def text(self) -> str:
        """Return the words with a space between."""
        return " ".join(word.text for word in self.words)

    @property
    def is_prose(self) -> bool:
        """Return whether it may be a line of running text."""
        return len(self.words) >= 3 and self.right - self.left >= 8 * self.size


def spaced_words(words: Sequence[Word]) -> list[Word]:
    """Return words in which letters that are set apart (`H A R B O U R`) are joined."""
    found: list[Word] = []
    done = 0
    for run in _SHORT.finditer("".join("s" if len(word[0]) <= 2 else "l" for word in words)):
        first = run.start()
        while first < run.end():
            end = first + 1
            while end < run.end() and _gap(words[end - 1], words[end]) is not None:
                end += 1
            if end - first >= _MIN_PIECES:
                found += [*words[done:first], *_join_letters(words, first, end)]
                done = end
            first = end
    return [*found, *words[done:]]


def _gap(word: Word, after: Word) -> float | None:
    """Return the distance to the next word on a line, in points; None where it is far away or on another line."""
    size = max(word.size, after.size)
    gap = after.left - word.right
    return gap if abs(after.base - word.base) <= 0.1 * size and -0.2 * size < gap <= 2.0 * size else None


def _join_letters(words: Sequence[Word], first: int, end: int) -> Sequence[Word]:
    """Return a run of short words, joined where the gaps between them show that they are letters of longer ones."""
    run = words[first:end]
    size = max(word.size for word in run)
    if 2 * sum(len(word.text) == 1 for word in run) < len(run) or any(_SYMBOL.search(word.text) for word in run):
        return run
    gaps = [after.left - word.right for word, after in pairwise(run)]
    ordered = sorted(gaps)
    jumps = [(b - a, a, (a + b) / 2) for a, b in pairwise(ordered) if b - a >= _JUMP * size and b >= 1.4 * a]
    _, widest, limit = max(jumps, default=(0.0, ordered[-1], ordered[-1] + _JUMP * size))
    if ordered[0] < 0.02 * size or widest - ordered[0] > 0.25 * size:
        return run
    # letter spacing comes after each letter, so the space after the last one is the wider one
    after = _gap(words[end - 1], words[end]) if end < len(words) else None
    before = _gap(words[first - 1], words[first]) if first else None
    if (before is not None and before < ordered[0]) or ((before if after is None else after) or limit) < limit:
        return run
    groups = [[run[0]]]
    for gap, word in zip(gaps, run[1:], strict=True):
        if gap > widest:
            groups.append([])
        groups[-1].append(word)
    is_alone = not jumps and before is None and after is None
    has_usual_gaps = _USUAL_SPACE[0] * size <= ordered[len(ordered) // 2] <= _USUAL_SPACE[1] * size
    least = 5 if is_alone and has_usual_gaps else _MIN_PIECES
    texts = ["".join(word.text for word in group) for group in groups]
    if not any(len(group) >= least and _is_like_a_word(text) for group, text in zip(groups, texts, strict=True)):
        return run
    return [
        group[0]._replace(text=text, right=group[-1].right, size=max(word.size for word in group))
        for group, text in zip(groups, texts, strict=True)
    ]


def _is_like_a_word(text: str) -> bool:
    """Return whether letters are no list of letters, of marks in a table, or of names of variables."""
    letters = [letter.lower() for letter in text if letter.isalpha()]
    is_cased = text.upper() == text or text[1:].lower() == text[1:]
    is_list = all(a < b for a, b in pairwise(letters))
    has_vowel = not text.isascii() or not _VOWELS.isdisjoint(letters)
    return 3 * len(letters) >= 2 * len(text) and len(set(letters)) >= 3 and is_cased and not is_list and has_vowel


def lines_of(words: Iterable[Word]) -> list[Line]:
    """Return the pieces of lines, from the top down and from left to right."""
    found: list[Line] = []
    run: list[Word] = []
    right = base = size = 0.0
    for word in words:
        most = max(size, word.size)
        gap, rise = word.left - right, abs(word.base - base)
        if rise <= 0.15 * most:
            goes_on = -most <= gap <= most and bool(run) and word.left > run[-1].left
        else:  # raised or lowered and smaller
            is_script = rise <= 0.65 * most and abs(word.size - size) > 0.1 * most
            goes_on = is_script and -0.3 * most <= gap <= _TIGHT * most
        if not (run and goes_on):
            if run:
                found.append(line_of(run, base, size))
            run, right, base, size = [], word.right, word.base, word.size
        run.append(word)
        right = max(right, word.right)
        if word.size > 1.1 * size:
            base, size = word.base, word.size
    if run:
        found.append(line_of(run, base, size))
    pieces: list[Line] = []
    for row in rows_of(found):  # the file may have pieces in any order
        last: Line | None = None
        for line in row:
            gap = line.left - last.right if last else 0.0
            if last and gap < -0.3 * last.size and (line.text in last.text or last.text in line.text):  # a shadow
                pieces[-1] = max(last, line, key=lambda one: len(one.words))
            elif last and -0.5 * last.size <= gap <= _TIGHT * max(last.size, line.size):
                big = max(last, line, key=lambda one: (one.size, len(one.words)))
                both = sorted((*last.words, *line.words), key=lambda word: word.left)
                pieces[-1] = line_of(both, big.base, big.size)
            else:
                pieces.append(line)
            last = pieces[-1]
    return pieces


def line_of(words: Sequence[Word], base: float, size: float) -> Line:
    """Return words as a line, in the size that most of its characters have."""
    usual = words[0].size
    if any(word.size != usual for word in words):
        sizes: Counter[float] = Counter()
        for word in words:
            sizes[word.size] += len(word.text)
        usual = max(sizes, key=lambda size: sizes[size])
    length = sum(len(word.text) for word in words)
    heavy = sum(len(word.text) for word in words if word.is_bold)
    right = max(word.right for word in words)
    is_fixed = all(word.is_fixed for word in words)
    return Line(tuple(words), words[0].left, right, base, usual or size, heavy > 0.8 * length, is_fixed)


def merged(row: Sequence[Line]) -> Line:
    """Return the pieces of one line as one, where the longest of them stands."""
    big = max(row, key=lambda line: len(line.text))
    return row[0] if len(row) == 1 else line_of([word for line in row for word in line.words], big.base, big.size)


def rows_of(lines: Iterable[Line]) -> list[list[Line]]:
    """Return lines that stand on one base line, from left to right; the rows from the top down."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: -line.base):
        if rows and rows[-1][0].base - line.base <= 0.3 * min(rows[-1][0].size, line.size):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=lambda line: line.left)
    return rows


def joint(before: str, after: str) -> str:
    """Return what stands between a line of a paragraph and the next."""
    if _ENDS_IN_HYPHEN.fullmatch(before[-2:]) and after[:1].isalnum():
        return HYPHEN if after[0].isalpha() else ""
    return "" if _WIDE_SCRIPT.match(before[-1:]) and _WIDE_SCRIPT.match(after[:1]) else " "
