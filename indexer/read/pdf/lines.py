"""Combine letters into words, and words into lines, by their positions on the page, not by their order in the file.

Positions determine the visual order of letters. To find the reading order, the rules of the Unicode Bidirectional
Algorithm (UAX #9) are applied in reverse.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

FROM_THE_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
MARK = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4]"
)
_PRESENTATION_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]")
_LIGATURE = re.compile("[\u0622\u0623\u0625\u0627]\u0644|هلل|هللا")  # Arabic ligatures whose letters PDFium reverses
_NUMBER_SEPARATORS = frozenset(".,:/\u066b\u066c")
_NUMBER_SIGNS = frozenset("+%$€£#°\u066a\u20aa")
_MIRRORED = dict(zip("()[]{}<>«»‹›", ")(][}{><»«›‹", strict=True))
_OPENING = frozenset("([{<«‹")
_SHADOW_EM = 0.17  # a letter repeated within this distance is a shadow; the letters of `ll` are further apart
_KINDS = {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}  # right, left or number, by bidirectional class
_LEFT_IN_RIGHT = re.compile("(?:N|L(?:[^R]*[LN])?)+")
_RIGHT_IN_LEFT = re.compile("R(?:[^L]*R)?")


class Glyph(NamedTuple):
    """A letter with marks, a ligature or a word. Positions are in points. `offset` is an index in the page text."""

    text: str
    x0: float
    x1: float
    base: float
    size: float
    offset: int


Sequenced = tuple[Glyph | None, bool]  # glyph, or None for a space; whether it is read from right to left


def words_of_glyphs(glyphs: Sequence[Glyph]) -> tuple[bool, list[Glyph]]:
    """Return whether a page is read from right to left, and the words of the page.

    A page is read from right to left if at least a third of its letters are, because such pages often have names and
    addresses in Latin letters. On such a page, x coordinates are negated, so that they increase in reading order.
    """
    kinds = _bidi_kinds(glyphs)
    from_the_right = 2 * kinds.count("R") >= kinds.count("L")
    words: list[Glyph] = []
    for row in _rows(glyphs):
        segments: list[list[Glyph]] = []
        for glyph in row:
            if not segments or glyph.x0 - segments[-1][-1].x1 > glyph.size:
                segments.append([])
            segments[-1].append(glyph)
        for segment in segments:
            runs: list[Glyph] = []
            for word in _words_in_reading_order(segment, from_the_right):
                x0, x1 = min(glyph.x0 for glyph in word), max(glyph.x1 for glyph in word)
                if from_the_right:
                    x0, x1 = -x1, -x0
                text = "".join(_base_letters(glyph.text) for glyph in word)
                runs.append(Glyph(text, x0, x1, word[0].base, max(glyph.size for glyph in word), word[0].offset))
            if any(a.x0 > b.x0 for a, b in pairwise(runs)):
                start, end = min(run.x0 for run in runs), max(run.x1 for run in runs)
                gap = (end - start - sum(run.x1 - run.x0 for run in runs)) / (len(runs) - 1)
                for place, run in enumerate(runs):
                    width = run.x1 - run.x0
                    runs[place] = run._replace(x0=start, x1=start + width)
                    start += width + gap
            words += runs
    return from_the_right, words


def _rows(glyphs: Sequence[Glyph]) -> list[list[Glyph]]:
    """Group letters by base line, from top to bottom and left to right. Add combining marks to the nearest letters."""
    rows: list[list[Glyph]] = []
    marks: list[Glyph] = []
    for glyph in sorted(glyphs, key=lambda glyph: -glyph.base):
        if MARK.match(glyph.text):
            marks.append(glyph)
        elif rows and rows[-1][0].base - glyph.base <= _SHADOW_EM * glyph.size:
            rows[-1].append(glyph)
        else:
            rows.append([glyph])
    for row in rows:
        row.sort(key=lambda glyph: (glyph.x0, glyph.offset))
    bases = [-row[0].base for row in rows]
    for mark in marks if rows else ():
        near = bisect_left(bases, -mark.base)
        nearest = min(rows[max(0, near - 1) : near + 1], key=lambda row: abs(row[0].base - mark.base))
        middle = (mark.x0 + mark.x1) / 2
        place = bisect_left(nearest, middle, key=lambda glyph: glyph.x0)
        around = range(max(0, place - 2), min(len(nearest), place + 2))
        best = min(around, key=lambda one: abs((nearest[one].x0 + nearest[one].x1) / 2 - middle))
        nearest[best] = nearest[best]._replace(text=nearest[best].text + mark.text)
    return [_remove_shadows(row) for row in rows]


def _remove_shadows(row: Sequence[Glyph]) -> list[Glyph]:
    glyphs: list[Glyph] = []
    for glyph in row:
        if glyph.text not in (other.text for other in glyphs[-3:] if glyph.x0 - other.x0 <= _SHADOW_EM * glyph.size):
            glyphs.append(glyph)
    return glyphs


def _words_in_reading_order(segment: Sequence[Glyph], from_the_right: bool) -> Iterator[list[Glyph]]:
    visual: list[Glyph | None] = list(segment[:1])
    for last, glyph in pairwise(segment):
        if glyph.x0 - last.x1 > 0.17 * max(glyph.size, last.size):
            visual.append(None)
        visual.append(glyph)
    kinds = _bidi_kinds(segment)
    right_count, left_count = kinds.count("R"), kinds.count("L")
    if not right_count or not left_count:
        is_right = bool(right_count) or (from_the_right and not left_count)
    else:
        is_right = 4 * right_count >= left_count if from_the_right else right_count > left_count
    letters = _mirror_brackets(list(_reading_order(visual, _kinds_with_numbers(visual), is_right)))
    for is_word, word in groupby(letters, key=lambda letter: letter is not None):
        if is_word:
            yield [glyph for glyph in word if glyph]


def _bidi_kinds(glyphs: Sequence[Glyph | None]) -> str:
    return "".join(_KINDS.get(unicodedata.bidirectional(glyph.text[0]), "O") if glyph else "O" for glyph in glyphs)


def _kinds_with_numbers(visual: Sequence[Glyph | None]) -> str:
    """Return one character per glyph: R or L for a letter's direction, N for a digit or number sign, O for others."""
    kinds = list(_bidi_kinds(visual))
    is_arabic = False
    for place in range(len(visual) - 1, -1, -1):
        glyph = visual[place]
        if glyph is None:
            continue
        if kinds[place] in "RL":
            is_arabic = unicodedata.bidirectional(glyph.text[0]) == "AL"
        sides = "".join(kinds[max(0, place - 1) : place + 2 : 2] if place else kinds[1:2])
        is_inside = sides == "NN" and (glyph.text in _NUMBER_SEPARATORS or (glyph.text == "-" and not is_arabic))
        if is_inside or ("N" in sides and glyph.text in _NUMBER_SIGNS and not is_arabic):
            kinds[place] = "N"
    return "".join(kinds)


def _reading_order(visual: Sequence[Glyph | None], kinds: str, is_right: bool) -> Iterator[Sequenced]:
    """Yield the letters of a line in reading order. Runs that are read from right to left are reversed."""
    if not is_right:
        start = 0
        for span in _RIGHT_IN_LEFT.finditer(kinds):
            yield from ((glyph, False) for glyph in visual[start : span.start()])
            start = span.end()
            yield from _reading_order(visual[span.start() : start], span[0], is_right=True)
        yield from ((glyph, False) for glyph in visual[start:])
        return
    end = len(visual)
    for span in reversed(list(_LEFT_IN_RIGHT.finditer(kinds))):
        yield from ((glyph, True) for glyph in reversed(visual[span.end() : end]))
        end = span.start()
        yield from ((glyph, False) for glyph in visual[end : span.end()])
    yield from ((glyph, True) for glyph in reversed(visual[:end]))


def _mirror_brackets(sequence: Sequence[Sequenced]) -> Iterator[Glyph | None]:
    """Yield all letters. Correct brackets that the file stores reversed: a `)` before bracketed text becomes a `(`."""
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


def _base_letters(text: str) -> str:
    """Replace Unicode presentation forms by base letters, and put the letters of ligatures in reading order."""
    if _PRESENTATION_FORMS.search(text):
        text = "".join(unicodedata.normalize("NFKC", letter).strip() for letter in text)
    return text[::-1] if _LIGATURE.fullmatch(text) else text


_MIN_SPACED_LETTERS = 4
_MIN_WORD_GAP_EM = 0.12
_VOWELS = frozenset("aeiouy")
LINE_END_MARK = "\u00ad"  # inserted after a hyphen at a line end; `Hyphens.resolve` removes it
_ENDS_IN_HYPHEN = re.compile(r"[^\W\d_][-\u2010]")
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f]")
_TIGHT_GAP_EM = 0.45


class Word(NamedTuple):
    """A run of characters without a space. Positions are in points from the lower left of the rotated page."""

    text: str
    x0: float
    x1: float
    base: float
    size: float
    is_bold: bool = False
    is_monospaced: bool = False


class PdfLine(NamedTuple):
    """A line of text, or the part of a line in one column or table cell. Positions are in points."""

    words: tuple[Word, ...]
    x0: float
    x1: float
    base: float
    size: float
    is_bold: bool = False
    is_monospaced: bool = False
    has_wide_gaps: bool = False

    @property
    def text(self) -> str:
        """Return the words separated by spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def is_prose(self) -> bool:
        """Return whether the line may be running text."""
        return len(self.words) >= 3 and self.x1 - self.x0 >= 8 * self.size


def join_spaced_words(words: Iterable[Word]) -> list[Word]:
    """Return all words. Letters that are spaced out, as in `H A R B O U R`, are joined."""
    joined: list[Word] = []
    run: list[Word] = []
    for word in words:
        is_short = len(word.text) <= 2 and word.text.isalpha()
        if run and not (is_short and _is_near(run[-1], word)):
            joined += _join_letters(run)
            run = []
        (run if is_short else joined).append(word)
    return [*joined, *_join_letters(run)]


def _is_near(word: Word, after: Word) -> bool:
    size = max(word.size, after.size)
    return abs(after.base - word.base) <= 0.1 * size and 0.02 * size <= after.x0 - word.x1 <= 2.0 * size


def _join_letters(run: Sequence[Word]) -> Sequence[Word]:
    """Join short words if their gaps show that they are the spaced letters of longer words."""
    if len(run) < _MIN_SPACED_LETTERS:
        return run
    size = max(word.size for word in run)
    gaps = [after.x0 - word.x1 for word, after in pairwise(run)]
    ordered = sorted(gaps)
    jumps = [(b - a, a) for a, b in pairwise(ordered) if b - a >= _MIN_WORD_GAP_EM * size and b >= 1.4 * a]
    _, widest = max(jumps, default=(0.0, ordered[-1]))
    groups = [[run[0]]]
    for gap, word in zip(gaps, run[1:], strict=True):
        if gap > widest:
            groups.append([])
        groups[-1].append(word)
    texts = ["".join(word.text for word in group) for group in groups]
    is_spaced = 3 * sum(len(word.text) == 1 for word in run) >= 2 * len(run) and widest - ordered[0] <= 0.25 * size
    least = _MIN_SPACED_LETTERS if jumps or texts[0].istitle() else _MIN_SPACED_LETTERS + 1
    if not is_spaced or not any(len(text) >= least and _is_like_a_word(text) for text in texts):
        return run
    return [
        group[0]._replace(text=text, x1=group[-1].x1, size=max(word.size for word in group))
        for group, text in zip(groups, texts, strict=True)
    ]


def _is_like_a_word(text: str) -> bool:
    """Return whether letters may form a word. Otherwise they are variables, list labels or marks in a table."""
    is_cased = text != text.swapcase() and (text.isupper() or text[1:].islower())
    is_list = all(a < b for a, b in pairwise(text.lower()))
    return is_cased and not is_list and (not text.isascii() or not _VOWELS.isdisjoint(text.lower()))


def find_lines(words: Iterable[Word]) -> list[PdfLine]:
    """Combine words into lines, from top to bottom and left to right. Divide lines at wide gaps."""
    runs: list[PdfLine] = []
    run: list[Word] = []
    x1 = base = size = 0.0
    for word in words:
        size_limit = max(size, word.size)
        gap, rise = word.x0 - x1, abs(word.base - base)
        if rise <= 0.15 * size_limit:
            continues = -size_limit <= gap <= size_limit and bool(run) and word.x0 > run[-1].x0
        else:
            is_script = rise <= 0.65 * size_limit and abs(word.size - size) > 0.1 * size_limit
            continues = is_script and -0.3 * size_limit <= gap <= _TIGHT_GAP_EM * size_limit
        if not (run and continues):
            if run:
                runs.append(make_line(run, base, size))
            run, x1, base, size = [], word.x1, word.base, word.size
        run.append(word)
        x1 = max(x1, word.x1)
        if word.size > 1.1 * size:
            base, size = word.base, word.size
    if run:
        runs.append(make_line(run, base, size))
    segments: list[PdfLine] = []
    for row in group_rows(runs):
        last: PdfLine | None = None
        for line in row:
            gap = line.x0 - last.x1 if last else 0.0
            if last and gap < -0.3 * last.size and (line.text in last.text or last.text in line.text):  # printed twice
                segments[-1] = max(last, line, key=lambda one: len(one.words))
            elif last and -0.5 * last.size <= gap <= _TIGHT_GAP_EM * max(last.size, line.size):
                big = max(last, line, key=lambda one: (one.size, len(one.words)))
                both = sorted((*last.words, *line.words), key=lambda word: word.x0)
                segments[-1] = make_line(both, big.base, big.size)
            else:
                segments.append(line)
            last = segments[-1]
    return segments


def make_line(words: Sequence[Word], base: float, size: float) -> PdfLine:
    """Combine words into a line. Its font size is that of the longest word, or `size` if that word has size 0."""
    usual = max(words, key=lambda word: len(word.text)).size
    length = sum(len(word.text) for word in words)
    heavy = sum(len(word.text) for word in words if word.is_bold)
    x1 = max(word.x1 for word in words)
    is_monospaced = all(word.is_monospaced for word in words)
    return PdfLine(tuple(words), words[0].x0, x1, base, usual or size, heavy > 0.8 * length, is_monospaced)


def merge_segments(row: Sequence[PdfLine]) -> PdfLine:
    """Merge the parts of one line, such as table cells. The base line of the result is that of the longest part."""
    if len(row) == 1:
        return row[0]
    big = max(row, key=lambda line: len(line.text))
    has_wide_gaps = any(after.x0 - line.x1 > 2.5 * after.size for line, after in pairwise(row))
    words = [word for line in row for word in line.words]
    return make_line(words, big.base, big.size)._replace(has_wide_gaps=has_wide_gaps)


def group_rows(lines: Iterable[PdfLine]) -> list[list[PdfLine]]:
    """Group lines by base line into rows, from top to bottom. Sort the lines of each row from left to right."""
    rows: list[list[PdfLine]] = []
    for line in sorted(lines, key=lambda line: -line.base):
        if rows and rows[-1][0].base - line.base <= 0.3 * min(rows[-1][0].size, line.size):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=lambda line: line.x0)
    return rows


def separator(before: str, after: str) -> str:
    """Return the text to insert between two lines: a space, an empty string, or `LINE_END_MARK` after a hyphen."""
    if _ENDS_IN_HYPHEN.fullmatch(before[-2:]) and after[:1].isalnum():
        return LINE_END_MARK if after[0].isalpha() else ""
    return "" if _CJK.match(before[-1:]) and _CJK.match(after[:1]) else " "
