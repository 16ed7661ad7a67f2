"""Single characters to words in the order in which they are read, whatever order the file has, by their places.

The places give the order in which letters are seen from left to right. To come from there to the order in which they
are read, the rules of the Unicode Bidirectional Algorithm (UAX #9) are followed backwards, as far as that is possible.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

FROM_THE_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
MARK = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4]"
)
_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]")  # letters as they look at the beginning or end of a word
_LIGATURE = re.compile("[\u0622\u0623\u0625\u0627]\u0644|هلل|هللا")  # as PDFium has those of lam and others, reversed
_SEPARATORS = frozenset(".,:/\u066b\u066c")  # inside a number
_SIGNS = frozenset("+-%$€£#°\u066a\u20aa")  # of a number, unless letters of Arabic script are before it
_MIRRORED = dict(zip("()[]{}<>«»‹›", ")(][}{><»«›‹", strict=True))
_OPENING = frozenset("([{<«‹")
_STOPS = frozenset(".,:;!?\u060c\u061b\u061f")


class Glyph(NamedTuple):
    """A letter with the marks on it, a ligature of several, or a word where it is read; points."""

    text: str
    left: float
    right: float
    base: float
    size: float
    place: int  # of its first letter, in the text of the page


Sequenced = tuple[Glyph | None, bool]  # None: a space; whether it is read from right to left


def is_right_to_left(glyphs: Sequence[Glyph]) -> bool:
    """Return whether a page is of a script from right to left; names and addresses there are often in Latin letters."""
    right, left = _letters(glyphs)
    return 2 * right >= left


def runs_of(glyphs: Sequence[Glyph], *, from_the_right: bool) -> Iterator[Glyph]:
    """Yield the words of a page; on one that is read from right to left, distances are from its right edge."""
    for row in _rows(glyphs):
        for piece in _pieces(row):
            words = _words(piece, from_the_right=from_the_right)
            runs: list[Glyph] = []
            for word in words:
                left, right = min(glyph.left for glyph in word), max(glyph.right for glyph in word)
                if from_the_right:
                    left, right = -right, -left
                text = "".join(_plain(glyph.text) for glyph in word)
                runs.append(Glyph(text, left, right, word[0].base, max(glyph.size for glyph in word), word[0].place))
            if any(a.left > b.left for a, b in pairwise(runs)):
                start, end = min(run.left for run in runs), max(run.right for run in runs)
                gap = (end - start - sum(run.right - run.left for run in runs)) / (len(runs) - 1)
                for place, run in enumerate(runs):
                    width = run.right - run.left
                    runs[place] = run._replace(left=start, right=start + width)
                    start += width + gap
            yield from runs


def _letters(glyphs: Sequence[Glyph]) -> tuple[int, int]:
    kinds = [_kind(glyph) for glyph in glyphs]
    return kinds.count("R"), kinds.count("L")


def _kind(glyph: Glyph | None) -> str:
    kind = unicodedata.bidirectional(glyph.text[0]) if glyph else ""
    return {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}.get(kind, "O")


def _rows(glyphs: Sequence[Glyph]) -> list[list[Glyph]]:
    """Return letters by base lines, from the top down, and each from left to right, with the marks on them."""
    rows: list[list[Glyph]] = []
    marks: list[Glyph] = []
    for glyph in sorted(glyphs, key=lambda glyph: -glyph.base):
        if MARK.match(glyph.text):
            marks.append(glyph)
        elif rows and rows[-1][0].base - glyph.base <= 0.15 * glyph.size:
            rows[-1].append(glyph)
        else:
            rows.append([glyph])
    for row in rows:
        row.sort(key=lambda glyph: (glyph.left, glyph.place))
    _add_marks(rows, marks)
    return [_once(row) for row in rows]


def _add_marks(rows: list[list[Glyph]], marks: Sequence[Glyph]) -> None:
    """Put each mark behind the letter that it stands on."""
    bases = [-row[0].base for row in rows]
    for mark in marks:
        near = bisect_left(bases, -mark.base)
        row = min(rows[max(0, near - 1) : near + 1], key=lambda row: abs(row[0].base - mark.base), default=None)
        if row:
            middle = (mark.left + mark.right) / 2
            place = bisect_left(row, middle, key=lambda glyph: glyph.left)
            around = range(max(0, place - 2), min(len(row), place + 2))
            best = min(around, key=lambda one: abs((row[one].left + row[one].right) / 2 - middle))
            row[best] = row[best]._replace(text=row[best].text + mark.text)


def _once(row: Sequence[Glyph]) -> list[Glyph]:
    """Return a row without letters that are printed again next to where they stand."""
    found: list[Glyph] = []
    for glyph in row:
        near = (other.text for other in found[-3:] if glyph.left - other.left <= 0.15 * glyph.size)
        if glyph.text not in near:
            found.append(glyph)
    return found


def _pieces(row: Sequence[Glyph]) -> list[list[Glyph]]:
    """Return the parts of a row that stand further from each other than words do."""
    found: list[list[Glyph]] = []
    for glyph in row:
        if not found or glyph.left - found[-1][-1].right > glyph.size:
            found.append([])
        found[-1].append(glyph)
    return found


def _words(piece: Sequence[Glyph], *, from_the_right: bool) -> Iterator[list[Glyph]]:
    """Yield the words of a piece of a line in reading order, each with its letters so."""
    seen: list[Glyph | None] = list(piece[:1])
    for last, glyph in pairwise(piece):
        if glyph.left - last.right > 0.17 * max(glyph.size, last.size):
            seen.append(None)
        seen.append(glyph)
    kinds = _kinds(seen)
    is_right = _is_from_the_right(piece, from_the_right=from_the_right)
    letters = _mirrored(list(_from_right(seen, kinds) if is_right else _from_left(seen, kinds)))
    for is_word, word in groupby(letters, key=lambda letter: letter is not None):
        if is_word:
            yield [glyph for glyph in word if glyph]


def _is_from_the_right(piece: Sequence[Glyph], *, from_the_right: bool) -> bool:
    """Return whether a piece of a line is read from right to left, where most of its page is or is not."""
    right, left = _letters(piece)
    if not right or not left:
        return bool(right) or (from_the_right and not left)
    stops = piece[0].text in _STOPS, piece[-1].text in _STOPS
    if stops[0] != stops[1]:
        return stops[0]
    return 4 * right >= left if from_the_right else right > left


def _kinds(seen: Sequence[Glyph | None]) -> list[str]:
    """Return the kind of each letter, with signs and separators of numbers as digits."""
    kinds = [_kind(glyph) for glyph in seen]
    is_arabic = False
    for place in range(len(seen) - 1, -1, -1):
        glyph = seen[place]
        if glyph is None:
            continue
        if kinds[place] in "RL":
            is_arabic = unicodedata.bidirectional(glyph.text[0]) == "AL"
        sides = kinds[place - 1] == "N" if place else False, kinds[place + 1 : place + 2] == ["N"]
        is_inside = all(sides) and (glyph.text in _SEPARATORS or (glyph.text == "-" and not is_arabic))
        is_sign = any(sides) and glyph.text in _SIGNS and glyph.text != "-" and not is_arabic
        if is_inside or is_sign:
            kinds[place] = "N"
    return kinds


def _from_right(seen: Sequence[Glyph | None], kinds: Sequence[str]) -> Iterator[Sequenced]:
    """Yield letters from right to left, but words of other scripts, and numbers, from left to right."""
    other = [False] * len(seen)  # whether it belongs to what is read from left to right
    start = end = -1
    for place, kind in enumerate(kinds):
        if kind == "R":
            start = -1
        elif kind == "L" and start < 0:
            start = end = place
        if kind == "N":
            other[place] = True
        if start >= 0 and kind in "LN":
            other[end : place + 1] = [True] * (place + 1 - end)
            end = place
    place = len(seen) - 1
    while place >= 0:
        first = place
        while other[place] and first and other[first - 1]:
            first -= 1
        yield from ((glyph, not other[place]) for glyph in seen[first : place + 1])
        place = first - 1


def _from_left(seen: Sequence[Glyph | None], kinds: Sequence[str]) -> Iterator[Sequenced]:
    """Yield letters from left to right, but words of scripts from right to left so."""
    place = 0
    while place < len(seen):
        end = place + 1
        if kinds[place] == "R":
            for later in range(place + 1, len(seen)):
                if kinds[later] == "L":
                    break
                if kinds[later] == "R":
                    end = later + 1
            yield from _from_right(seen[place:end], kinds[place:end])
        else:
            yield seen[place], False
        place = end


def _mirrored(sequence: Sequence[Sequenced]) -> Iterator[Glyph | None]:
    """Yield letters with the brackets turned that open where they close, as some files have them as they look."""
    is_open = False
    for place, (glyph, is_right) in enumerate(sequence):
        if glyph and is_right and glyph.text in _MIRRORED:
            before = sequence[place - 1][0] if place else None
            after = sequence[place + 1][0] if place + 1 < len(sequence) else None
            opens = before is None if (before is None) != (after is None) else not is_open
            if opens != (glyph.text in _OPENING):
                glyph = glyph._replace(text=_MIRRORED[glyph.text])
            is_open = opens
        yield glyph


def _plain(text: str) -> str:
    """Return letters without the forms that they have inside a word, and ligatures in the order of their letters."""
    if _FORMS.search(text):
        text = "".join(unicodedata.normalize("NFKC", letter).strip() for letter in text)
    return text[::-1] if _LIGATURE.fullmatch(text) else text
