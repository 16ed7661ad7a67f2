"""Put single characters into words in the order in which they are read, whatever order the file has, by their places.

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
_SIGNS = frozenset("+%$€£#°\u066a\u20aa")  # of a number, unless letters of Arabic script are before it
_MIRRORED = dict(zip("()[]{}<>«»‹›", ")(][}{><»«›‹", strict=True))
_OPENING = frozenset("([{<«‹")
_STOPS = frozenset(".,:;!?\u060c\u061b\u061f")
_KINDS = {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}  # letters by direction and numbers; others are O
_LEFT_IN_RIGHT = re.compile("(?:N|L(?:[^R]*[LN])?)+")  # kinds that are read from left to right on a line that is not
_RIGHT_IN_LEFT = re.compile("R(?:[^L]*R)?")


class Glyph(NamedTuple):
    """A letter with the marks on it, a ligature of several, or a word where it is read; points."""

    text: str
    left: float
    right: float
    base: float
    size: float
    place: int  # of its first letter, in the text of the page


Sequenced = tuple[Glyph | None, bool]  # None: a space; whether it is read from right to left


def runs_of(glyphs: Sequence[Glyph]) -> tuple[bool, list[Glyph]]:
    """Return whether a page is of a script from right to left, and its words; then distances are from its right edge.

    Names and addresses on such a page are often in Latin letters.
    """
    kinds = _kinds(glyphs)
    from_the_right = 2 * kinds.count("R") >= kinds.count("L")
    found: list[Glyph] = []
    for row in _rows(glyphs):
        pieces: list[list[Glyph]] = []  # further from each other than words
        for glyph in row:
            if not pieces or glyph.left - pieces[-1][-1].right > glyph.size:
                pieces.append([])
            pieces[-1].append(glyph)
        for piece in pieces:
            runs: list[Glyph] = []
            for word in _words(piece, from_the_right):
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
            found += runs
    return from_the_right, found


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
    bases = [-row[0].base for row in rows]
    for mark in marks if rows else ():
        near = bisect_left(bases, -mark.base)
        nearest = min(rows[max(0, near - 1) : near + 1], key=lambda row: abs(row[0].base - mark.base))
        middle = (mark.left + mark.right) / 2
        place = bisect_left(nearest, middle, key=lambda glyph: glyph.left)
        around = range(max(0, place - 2), min(len(nearest), place + 2))
        best = min(around, key=lambda one: abs((nearest[one].left + nearest[one].right) / 2 - middle))
        nearest[best] = nearest[best]._replace(text=nearest[best].text + mark.text)
    return [_once(row) for row in rows]


def _once(row: Sequence[Glyph]) -> list[Glyph]:
    """Return a row without letters that are printed again next to where they stand."""
    found: list[Glyph] = []
    for glyph in row:
        if glyph.text not in (other.text for other in found[-3:] if glyph.left - other.left <= 0.15 * glyph.size):
            found.append(glyph)
    return found


def _words(piece: Sequence[Glyph], from_the_right: bool) -> Iterator[list[Glyph]]:
    """Yield the words of a piece of a line in reading order, each with its letters so."""
    seen: list[Glyph | None] = list(piece[:1])
    for last, glyph in pairwise(piece):
        if glyph.left - last.right > 0.17 * max(glyph.size, last.size):
            seen.append(None)
        seen.append(glyph)
    kinds = _kinds(piece)
    right, left = kinds.count("R"), kinds.count("L")
    stops = piece[0].text in _STOPS, piece[-1].text in _STOPS
    if not right or not left:
        is_right = bool(right) or (from_the_right and not left)
    elif stops[0] != stops[1]:
        is_right = stops[0]
    else:
        is_right = 4 * right >= left if from_the_right else right > left
    letters = _mirrored(list(_in_order(seen, _with_numbers(seen), is_right)))
    for is_word, word in groupby(letters, key=lambda letter: letter is not None):
        if is_word:
            yield [glyph for glyph in word if glyph]


def _kinds(glyphs: Sequence[Glyph | None]) -> str:
    return "".join(_KINDS.get(unicodedata.bidirectional(glyph.text[0]), "O") if glyph else "O" for glyph in glyphs)


def _with_numbers(seen: Sequence[Glyph | None]) -> str:
    """Return the kind of each letter, with signs and separators of numbers as digits."""
    kinds = list(_kinds(seen))
    is_arabic = False
    for place in range(len(seen) - 1, -1, -1):
        glyph = seen[place]
        if glyph is None:
            continue
        if kinds[place] in "RL":
            is_arabic = unicodedata.bidirectional(glyph.text[0]) == "AL"
        sides = "".join(kinds[max(0, place - 1) : place + 2 : 2] if place else kinds[1:2])
        is_inside = sides == "NN" and (glyph.text in _SEPARATORS or (glyph.text == "-" and not is_arabic))
        if is_inside or ("N" in sides and glyph.text in _SIGNS and not is_arabic):
            kinds[place] = "N"
    return "".join(kinds)


def _in_order(seen: Sequence[Glyph | None], kinds: str, is_right: bool) -> Iterator[Sequenced]:
    """Yield letters from right to left or from left to right, but words of other scripts, and numbers, as they are."""
    if not is_right:
        start = 0
        for span in _RIGHT_IN_LEFT.finditer(kinds):
            yield from ((glyph, False) for glyph in seen[start : span.start()])
            start = span.end()
            yield from _in_order(seen[span.start() : start], span[0], is_right=True)
        yield from ((glyph, False) for glyph in seen[start:])
        return
    end = len(seen)
    for span in reversed(list(_LEFT_IN_RIGHT.finditer(kinds))):
        yield from ((glyph, True) for glyph in reversed(seen[span.end() : end]))
        end = span.start()
        yield from ((glyph, False) for glyph in seen[end : span.end()])
    yield from ((glyph, True) for glyph in reversed(seen[:end]))


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
