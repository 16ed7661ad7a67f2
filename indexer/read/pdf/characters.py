"""A page to words with their places and sizes, and the lines that are drawn on it, by PDFium."""

import ctypes
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from indexer import notes
from indexer.read.extraction import tidy
from indexer.read.pdf.directions import FROM_THE_RIGHT, MARK, Glyph, is_right_to_left, runs_of
from indexer.read.pdf.drawings import Filled, Rule, Turn, Upright, drawn_lines, pieces, read_annotations
from indexer.read.pdf.lines import APART, Word, is_printed_twice, spaced_words

_MOST_CHARACTERS = 200_000  # of a page whose layout is analysed
_SLANTED = 0.2  # share of words that run neither along nor up a page above which its layout is not followed
_LEVEL = 0.1  # slope of text that counts as level
_WORD = re.compile("[^\\s\x00-\x1f\ufffe\uffff\u200b]+[\x02\ufffe]?")
_LETTER = re.compile("[\ud800-\udbff][\udc00-\udfff]|[^\\s\x00\x01\x03-\x1f\uffff\u200b]")
_STRANGE = re.compile("[\x01\x03-\x08\x0e-\x1f\ufffd\ue000-\uf8ff]")
_SIGN = re.compile("[\ud800-\udfff\x02\ufffe\u00ad]")  # that stands for something else
_HALF = re.compile("[\ud800-\udfff]")
_HYPHEN = re.compile("[\ufffe\x02]\r?\n?")
_WRAPPED = re.compile(r"(?<=[^\W\d_A-Z]|[,;])\n(?=[^\W\d_A-Z])")  # a line end inside a sentence
_BOLD_NAME = re.compile(r"bold|black|heavy|demi|-medi\b|cm\w*bx|bx\d|[a-z]TB|-B\b", re.ASCII)
_STANDARD_NAME = re.compile("(?:helvetica|arial|courier|times)", re.ASCII)  # says whether it is bold
_TURNS: tuple[Turn, ...] = ((1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0))  # quarter turns to the right


Frames = dict[int | None, tuple[bool, list[Word]]]  # by quarter turns: whether they are read from the right, and words


@dataclass(frozen=True, slots=True)
class Characters:
    """What is on a page in one direction, as it is seen when the page is turned so that it is upright.

    Where it is read from right to left, places are those in a mirror: what is read first is left.
    """

    text: str  # as PDFium orders it, for a page whose layout is not followed
    words: tuple[Word, ...] = ()  # in the order of the file; none where the layout cannot be followed
    rules: tuple[Rule | Upright, ...] = ()
    height: tuple[float, float] = (0.0, 0.0)  # lower and upper edge
    aside: tuple[str, ...] = ()  # words that are slanted
    turned: tuple["Characters", ...] = ()  # what runs in other directions than most of the page
    turn: int = 0  # quarter turns to the right that set it upright
    from_the_right: bool = False
    filled: tuple[Word, ...] = ()  # in boxes that lie on the page
    notes: tuple[str, ...] = ()
    is_picture: bool = False  # shows something, but has no text


def read_page(document: Any, index: int) -> Characters:
    """Return what is on a page; nothing where it is damaged, since a page among good ones fails alone."""
    with suppress(pypdfium2.PdfiumError), closing(document[index]) as page:
        with closing(page.get_textpage()) as text_page:
            found = _characters(page, text_page)
        found = _with_annotations(found, *read_annotations(document, page))
        is_blank = not found.words and not found.text.strip()
        return replace(found, is_picture=is_blank and bool(pdfium.FPDFPage_CountObjects(page)))
    return Characters("")


def _characters(page: Any, text_page: Any) -> Characters:
    count = pdfium.FPDFText_CountChars(text_page)
    text = _all_text(text_page, count) if 0 < count <= _MOST_CHARACTERS else ""
    if not text:
        return Characters(_simple(text_page)) if count else _empty(page)
    strange = len(_STRANGE.findall(text))  # numbers of glyphs instead of letters, or letters that only a font knows
    sample = range(0, len(text), 1 + len(text) // 20) if 0 < 5 * strange <= len(text) else ()
    unmapped = sum(pdfium.FPDFText_HasUnicodeMapError(text_page, place) == 1 for place in sample)
    if 5 * strange > len(text) or 2 * unmapped > len(sample):
        notes.add("a PDF font that does not say what its letters are: its text may be unreadable")
    reader = _Reader(page, text_page, text)
    frames: Frames = {}
    if not FROM_THE_RIGHT.search(text) and not APART.search(text):
        frames = reader.words()
    if not frames or any(is_printed_twice(words) for _, words in frames.values()):
        frames = reader.words_by_place()
    total = sum(len(words) for _, words in frames.values())
    _, aside = frames.pop(None, (False, []))
    if len(aside) > _SLANTED * total:
        notes.add("a PDF page of vertical or slanted text: its layout was not followed")
    if total > 30_000 or len(aside) > _SLANTED * total:
        return Characters(_simple(text_page))
    made: list[Characters] = []
    for turn, (from_the_right, words) in sorted(frames.items(), key=lambda frame: -len(frame[1][1])):
        rules = tuple(drawn_lines(page, _TURNS[turn or 0]) if not made or len(words) >= 6 else ())
        if from_the_right:
            rules = tuple(
                Rule(-line.right, -line.left, line.y) if isinstance(line, Rule) else line._replace(x=-line.x)
                for line in rules
            )
        height = _height(page, turn or 0)
        made.append(Characters("", tuple(spaced_words(words)), rules, height, (), (), turn or 0, from_the_right))
    if not made:  # all of it lies outside the visible page
        return _empty(page)
    return replace(made[0], aside=tuple(word.text for word in aside), turned=tuple(made[1:]))


def _empty(page: Any) -> Characters:
    turn = pdfium.FPDFPage_GetRotation(page) % 4
    return Characters("", (), (), _height(page, turn), turn=turn)


def _with_annotations(found: Characters, boxes: Sequence[Filled], opened: Sequence[str]) -> Characters:
    """Return what is on a page with the texts in boxes on it, in their places, and its notes."""
    if found.text:  # has no places
        return replace(found, notes=(*(box.text for box in boxes), *opened))
    a, b, c, d = _TURNS[found.turn]
    sizes = sorted(word.size for word in found.words)
    usual = sizes[len(sizes) // 2] if sizes else None
    words: list[Word] = []
    for text, *sides in boxes:
        corners = [(a * x + b * y, c * x + d * y) for x, y in (sides[:2], sides[2:])]
        (left, right), (bottom, top) = (sorted(values) for values in zip(*corners, strict=True))
        if found.from_the_right:
            left, right = -right, -left
        words += pieces(Filled(text, left, bottom, right, top), usual)
    return replace(found, filled=tuple(words), notes=tuple(opened))


def _height(page: Any, turn: int) -> tuple[float, float]:
    west, south, east, north = page.get_bbox()
    _, _, c, d = _TURNS[turn]
    low, high = sorted((c * west + d * south, c * east + d * north))
    return low, high


def _simple(text_page: Any) -> str:
    text = _HYPHEN.sub("", text_page.get_text_bounded()).replace("\r\n", "\n")
    return _WRAPPED.sub(" ", tidy(text))


def _all_text(text_page: Any, count: int) -> str:
    """Return a character for each that PDFium counts, which are units of UTF-16: some letters are two of them."""
    buffer = (ctypes.c_ushort * (count + 1))()
    if pdfium.FPDFText_GetText(text_page, 0, count, buffer) == count + 1:
        return "".join(map(chr, buffer[:count]))
    codes = (pdfium.FPDFText_GetUnicode(text_page, place) for place in range(count))
    return "".join(chr(code) if 0 < code < 0x110000 else " " for code in codes)


def _turn(a: float, b: float, c: float, d: float) -> int | None:
    """Return how many quarter turns to the right set text upright; None where it is slanted."""
    if a < 0 < d:  # right-to-left text that is recognised on a scan is drawn in a mirror
        a = -a
    if abs(b) <= _LEVEL * abs(a):
        return 0 if a > 0 else 2
    if abs(a) <= _LEVEL * abs(b):
        return 1 if b > 0 else 3
    return None


class _Reader:
    """Words on the visible page."""

    def __init__(self, page: Any, text_page: Any, text: str) -> None:
        self._text_page = text_page.raw  # which each of the many calls below would look up
        self._text = text
        self._edges = page.get_bbox()
        self._fonts = _Fonts(self._text_page)

    def words(self) -> Frames:
        """Return the words as PDFium parts them, by the direction that they run in."""
        west, south, east, north = self._edges
        text_page, fonts = self._text_page, self._fonts
        x, y, left, right, bottom, top = (ctypes.c_double() for _ in range(6))
        at, box = (ctypes.byref(x), ctypes.byref(y)), [ctypes.byref(side) for side in (left, right, bottom, top)]
        matrix = pdfium.FS_MATRIX()
        words: defaultdict[int | None, list[Word]] = defaultdict(list)
        last_matrix = None
        has_signs = _SIGN.search(self._text) is not None
        for found in _WORD.finditer(self._text):
            first, last = found.start(), found.end() - 1
            pdfium.FPDFText_GetCharOrigin(text_page, first, *at)
            if not (west <= x.value <= east and south <= y.value <= north):
                continue
            pdfium.FPDFText_GetMatrix(text_page, first, matrix)
            own_matrix = matrix.a, matrix.b, matrix.c, matrix.d
            if own_matrix != last_matrix:
                last_matrix, direction, scale = own_matrix, _turn(*own_matrix), math.hypot(matrix.c, matrix.d)
                a, b, c, d = _TURNS[direction or 0]
            turn = direction
            size = abs(pdfium.FPDFText_GetFontSize(text_page, first)) * scale
            start, base = a * x.value + b * y.value, c * x.value + d * y.value
            pdfium.FPDFText_GetCharBox(text_page, last, *box)
            end = max(a * left.value + b * bottom.value, a * right.value + b * top.value)
            lows = c * left.value + d * bottom.value, c * right.value + d * top.value
            if end < start or min(lows) > base + 2 * size or max(lows) < base - 2 * size:
                turn = None
            word = _written(found[0]) if has_signs else found[0]
            words[turn].append(Word(word, start, end, base, size, *fonts.style(first)))
        return {turn: (False, own) for turn, own in words.items()}

    def words_by_place(self) -> Frames:
        """Return the words as the places of their letters part and order them, by the direction that they run in."""
        frames: Frames = {}
        for turn, glyphs in self._glyphs().items():
            from_the_right = is_right_to_left(glyphs)
            runs = runs_of(glyphs, from_the_right=from_the_right)
            frames[turn] = (
                from_the_right,
                [Word(_written(run.text), *run[1:5], *self._fonts.style(run.place)) for run in runs],
            )
        return frames

    def _glyphs(self) -> dict[int | None, list[Glyph]]:
        west, south, east, north = self._edges
        text_page = self._text_page
        x, y = ctypes.c_double(), ctypes.c_double()
        matrix, box = pdfium.FS_MATRIX(), pdfium.FS_RECTF()
        sides = west_side, east_side, south_side, north_side = [ctypes.c_double() for _ in range(4)]
        glyphs: defaultdict[int | None, list[Glyph]] = defaultdict(list)
        last: tuple[float, float] | None = None
        for found in _LETTER.finditer(self._text):
            place = found.start()
            pdfium.FPDFText_GetCharOrigin(text_page, place, x, y)
            if not (west <= x.value <= east and south <= y.value <= north):
                continue
            pdfium.FPDFText_GetMatrix(text_page, place, matrix)
            turn = _turn(matrix.a, matrix.b, matrix.c, matrix.d)
            a, b, c, d = _TURNS[turn or 0]
            start, base = a * x.value + b * y.value, c * x.value + d * y.value
            if MARK.match(found[0]):  # has no width, but ink
                pdfium.FPDFText_GetCharBox(text_page, place, *sides)
                start = left = right = (
                    a * (west_side.value + east_side.value) + b * (south_side.value + north_side.value)
                ) / 2
            else:
                pdfium.FPDFText_GetLooseCharBox(text_page, place, box)
                left, right = sorted((a * box.left + b * box.bottom, a * box.right + b * box.top))
            if last == (x.value, y.value) and glyphs[turn]:  # a part of a ligature
                one = glyphs[turn][-1]
                if one.text == found[0] and not self._is_one_object(place - 1, place):
                    continue
                glyphs[turn][-1] = one._replace(text=one.text + found[0], right=max(one.right, right))
                continue
            last = x.value, y.value
            size = abs(pdfium.FPDFText_GetFontSize(text_page, place)) * math.hypot(matrix.c, matrix.d)
            glyphs[turn].append(Glyph(found[0], min(start, left), right, base, size, place))
        return glyphs

    def _is_one_object(self, place: int, after: int) -> bool:
        things = [pdfium.FPDFText_GetTextObject(self._text_page, one) for one in (place, after)]
        return len({ctypes.addressof(thing.contents) for thing in things if thing}) == 1


def _written(word: str) -> str:
    """Return a word with its letters beyond 16 bits put together, and with hyphens for other signs of one."""
    if _HALF.search(word):
        word = word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if word[-1] in ("\x02", "\ufffe"):
        word = word[:-1] + "-"
    return word.replace("\u00ad", "-")


class _Fonts:
    """Fonts of a page; words of one size that follow each other in the file share a look at theirs."""

    def __init__(self, text_page: Any) -> None:
        self._text_page = text_page
        self._name, self._flags = ctypes.create_string_buffer(128), ctypes.c_int()
        self._known: dict[int, tuple[bool, bool]] = {}

    def style(self, place: int) -> tuple[bool, bool]:
        """Return whether a character is bold, and whether all of its font are of one width."""
        thing = pdfium.FPDFText_GetTextObject(self._text_page, place)
        key = ctypes.addressof(thing.contents) if thing else 0
        if key not in self._known:
            pdfium.FPDFText_GetFontInfo(self._text_page, place, self._name, 128, ctypes.byref(self._flags))
            text = self._name.value.decode("latin-1").rpartition("+")[2]
            name = text if text.endswith(("TB", "-B")) else text.lower()
            is_bold = bool(_BOLD_NAME.search(name))
            if not is_bold and not _STANDARD_NAME.match(name):  # others may say it by the width of their stems
                is_bold = pdfium.FPDFText_GetFontWeight(self._text_page, place) >= 600
            is_fixed = bool(self._flags.value & 1) or name.startswith("courier")  # which may have no flags
            self._known[key] = is_bold, is_fixed
        return self._known[key]
