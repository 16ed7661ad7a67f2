"""A page to words with their places and sizes, and the lines that are drawn on it, by PDFium."""

import ctypes
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from indexer.read.extraction import tidy

_MOST_CHARACTERS = 200_000  # of a page whose layout is looked at
_MOST_WORDS = 30_000
_MOST_OBJECTS = 20_000  # of a page, of which some programs make one of each letter: looked at for lines
_MOST_FORMS = 100  # pictures and pages within it
_TURNED = 0.2  # share of words that are not upright above which a page is no page of lines
_RIGHT_TO_LEFT = 0.1  # share of letters
_THIN = 3.0  # points: what is drawn lower than this is a line
_LONG = 15.0  # points: and longer than this
_SHORT = 5.0  # points: a vertical one is longer than this
_WORD = re.compile("[^\\s\x00-\x1f\ufffe\uffff\u00ad\u200b]+[\x02\ufffe\u00ad]?")
_HALF = re.compile("[\ud800-\udfff]")
_HYPHENS = ("\x02", "\ufffe", "\u00ad")  # what PDFium gives for a hyphen that only ends a line, and soft ones
_HYPHEN = re.compile("[\ufffe\x02]\r?\n?")
_WRAPPED = re.compile(r"(?<=[^\W\d_A-Z]|[,;])\n(?=[^\W\d_A-Z])")  # a line end inside a sentence
_FROM_THE_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LETTER = re.compile(r"[^\W\d_]")
_BOLD_NAME = re.compile(r"bold|black|heavy|demi|-medi\b|cm\w*bx|bx\d|[a-z]TB|-B\b", re.ASCII)
_BOLD = 600  # font weight
_STANDARD_NAME = re.compile("(?:helvetica|arial|courier|times)", re.ASCII)  # says whether it is bold
_FIXED = 1  # flag of a font
_TURNS = {0: (1, 0, 0, 1), 1: (0, 1, -1, 0), 2: (-1, 0, 0, -1), 3: (0, -1, 1, 0)}  # x' = ax + by, y' = cx + dy


Matrix = tuple[float, float, float, float, float, float]  # as PDF has it: x' = ax + cy + e, y' = bx + dy + f


class Word(NamedTuple):
    """A run of characters without a space; points, from the lower left of the page as it is shown."""

    text: str
    left: float
    right: float
    base: float  # of the line it stands on
    size: float
    is_bold: bool = False
    is_fixed: bool = False  # in type of which every letter is as wide as another


class Rule(NamedTuple):
    """A horizontal line that is drawn."""

    left: float
    right: float
    y: float


class Upright(NamedTuple):
    """A vertical line that is drawn."""

    x: float
    bottom: float
    top: float


@dataclass(frozen=True, slots=True)
class Characters:
    """What is on a page."""

    text: str  # as PDFium orders it, for a page whose layout is not followed
    words: tuple[Word, ...] = ()  # in the order of the file; none where the layout cannot be followed
    rules: tuple[Rule | Upright, ...] = ()
    height: tuple[float, float] = (0.0, 0.0)  # lower and upper edge
    aside: tuple[str, ...] = ()  # words that are not upright on a page of lines


def read_page(document: Any, index: int) -> Characters:
    """Return what is on a page; nothing where it is damaged, since a page among good ones fails alone."""
    try:
        page = document[index]
    except pypdfium2.PdfiumError:
        return Characters("")
    try:
        text_page = page.get_textpage()
        try:
            return _characters(page, text_page)
        finally:
            text_page.close()
    except pypdfium2.PdfiumError:
        return Characters("")
    finally:
        page.close()


def shows_something(document: Any, index: int) -> bool:
    """Return whether there is anything on a page, such as the picture of one."""
    try:
        page = document[index]
    except pypdfium2.PdfiumError:
        return False
    try:
        return bool(pdfium.FPDFPage_CountObjects(page))
    finally:
        page.close()


def _characters(page: Any, text_page: Any) -> Characters:
    count = pdfium.FPDFText_CountChars(text_page)
    text = _all_text(text_page, count) if 0 < count <= _MOST_CHARACTERS else ""
    letters = len(_LETTER.findall(text))
    if not text or len(_FROM_THE_RIGHT.findall(text)) > _RIGHT_TO_LEFT * letters:
        return Characters(_simple(text_page))
    found = list(_words(page, text_page, text))
    upright = [word for word, is_upright in found if is_upright]
    if len(found) > _MOST_WORDS or len(found) - len(upright) > _TURNED * len(found):
        return Characters(_simple(text_page))
    if not found:  # all of it lies outside the visible page
        return Characters("")
    return Characters(
        "",
        tuple(upright),
        tuple(_rules(page)),
        _height(page),
        tuple(word.text for word, is_upright in found if not is_upright),
    )


def _height(page: Any) -> tuple[float, float]:
    west, south, east, north = page.get_bbox()
    _, _, c, d = _TURNS[pdfium.FPDFPage_GetRotation(page) % 4]
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


def _words(page: Any, text_page: Any, text: str) -> Iterator[tuple[Word, bool]]:
    """Words on the visible page, and whether each is upright."""
    west, south, east, north = page.get_bbox()
    a, b, c, d = _TURNS[pdfium.FPDFPage_GetRotation(page) % 4]
    text_page = text_page.raw  # which each of the many calls below would look up
    x, y, left, right, bottom, top = (ctypes.c_double() for _ in range(6))
    at, box = (ctypes.byref(x), ctypes.byref(y)), [ctypes.byref(side) for side in (left, right, bottom, top)]
    matrix = pdfium.FS_MATRIX()
    fonts = _Fonts(text_page)
    for found in _WORD.finditer(text):
        first, last = found.start(), found.end() - 1
        pdfium.FPDFText_GetCharOrigin(text_page, first, *at)
        if not (west <= x.value <= east and south <= y.value <= north):
            continue
        word = found[0]
        if _HALF.search(word):
            word = word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if word[-1] in _HYPHENS:
            word = word[:-1] + "-"
        pdfium.FPDFText_GetMatrix(text_page, first, matrix)
        along, across = a * matrix.a + b * matrix.b, c * matrix.a + d * matrix.b
        size = abs(pdfium.FPDFText_GetFontSize(text_page, first)) * math.hypot(matrix.c, matrix.d)
        start, base = a * x.value + b * y.value, c * x.value + d * y.value
        pdfium.FPDFText_GetCharBox(text_page, last, *box)
        ends = a * left.value + b * bottom.value, a * right.value + b * top.value
        lows = c * left.value + d * bottom.value, c * right.value + d * top.value
        end = max(ends)
        is_upright = along > 0 and abs(across) <= along * 0.1 and end >= start
        is_level = min(lows) <= base + 2 * size and max(lows) >= base - 2 * size
        yield Word(word, start, end, base, size, *fonts.style(first)), is_upright and is_level


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
            name = _plain(self._name.value)
            is_bold = bool(_BOLD_NAME.search(name))
            if not is_bold and not _STANDARD_NAME.match(name):  # others may say it by the width of their stems
                is_bold = pdfium.FPDFText_GetFontWeight(self._text_page, place) >= _BOLD
            is_fixed = bool(self._flags.value & _FIXED) or name.startswith("courier")  # which may have no flags
            self._known[key] = is_bold, is_fixed
        return self._known[key]


def _plain(name: bytes) -> str:
    """A font's name without the tag of a subset, in lower case but for the short forms at its end."""
    text = name.decode("latin-1").rpartition("+")[2]
    return text if text.endswith(("TB", "-B")) else text.lower()


def _rules(page: Any) -> Iterator[Rule | Upright]:
    a, b, c, d = _TURNS[pdfium.FPDFPage_GetRotation(page) % 4]
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    sides = [ctypes.byref(side) for side in (left, bottom, right, top)]
    page = page.raw
    count = pdfium.FPDFPage_CountObjects(page)
    looked_at = 0
    todo: list[tuple[Any, Any, int, Matrix]] = [(page, pdfium.FPDFPage_GetObject, count, (a, c, b, d, 0.0, 0.0))]
    while todo:
        holder, get, count, matrix = todo.pop()
        looked_at += count
        if looked_at > _MOST_OBJECTS:
            return
        for place in range(count):
            thing = get(holder, place)
            kind = pdfium.FPDFPageObj_GetType(thing)
            if kind == pdfium.FPDF_PAGEOBJ_FORM and len(todo) < _MOST_FORMS:
                inner = _times(_matrix_of(thing), matrix)
                todo.append((thing, pdfium.FPDFFormObj_GetObject, pdfium.FPDFFormObj_CountObjects(thing), inner))
            if kind != pdfium.FPDF_PAGEOBJ_PATH:
                continue
            pdfium.FPDFPageObj_GetBounds(thing, *sides)
            corners = [_at(matrix, left.value, bottom.value), _at(matrix, right.value, top.value)]
            (west, east), (low, high) = (sorted(values) for values in zip(*corners, strict=True))
            if east - west >= _LONG and high - low <= _THIN:
                yield Rule(west, east, (low + high) / 2)
            elif high - low >= _SHORT and east - west <= _THIN:
                yield Upright((west + east) / 2, low, high)


def _matrix_of(thing: Any) -> Matrix:
    own = pdfium.FS_MATRIX(1, 0, 0, 1, 0, 0)
    pdfium.FPDFPageObj_GetMatrix(thing, own)
    return own.a, own.b, own.c, own.d, own.e, own.f


def _times(one: Matrix, two: Matrix) -> Matrix:
    a, b, c, d, e, f = one
    m, n, o, p, q, r = two
    return a * m + b * o, a * n + b * p, c * m + d * o, c * n + d * p, e * m + f * o + q, e * n + f * p + r


def _at(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f
