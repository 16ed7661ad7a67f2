"""Read the words, form fields, notes and drawn lines of a PDF page with PDFium, and their positions."""

import ctypes
import math
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from statistics import median
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium
from pypdfium2 import PdfMatrix

from indexer.read.extraction import tidy
from indexer.read.pdf.lines import (
    FROM_THE_RIGHT,
    MARK,
    Glyph,
    PdfLine,
    Word,
    find_lines,
    join_spaced_words,
    words_of_glyphs,
)
from indexer.text import reader_notes

_MAX_LINE_WIDTH_POINTS = 3.0
_MIN_LINE_LENGTH_POINTS = 5.0
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_MAX_DRAWN_OBJECTS = 20_000
_PASSWORD = 1 << 13
_CHECKBOXES = frozenset((pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON))
_CHOICES = frozenset((pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX))
_TYPES_WITHOUT_NOTES = frozenset((pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_SCREEN))

Point = tuple[float, float]
Rotation = tuple[int, int, int, int]  # (a, b, c, d): x' = ax + by, y' = cx + dy
Span = tuple[int, int]  # start and end index of characters
BoxText = tuple[str, float, float, float, float]  # text; left, bottom, right and top of its box, in points


class Rule(NamedTuple):
    """A horizontal line that is drawn on a page. Coordinates are in points."""

    x0: float
    x1: float
    y: float


class VerticalRule(NamedTuple):
    """A vertical line that is drawn on a page. Coordinates are in points."""

    bottom: float
    top: float
    x: float


def drawn_lines(page: Any, rotation: Rotation) -> Iterator[Rule | VerticalRule]:
    """Yield the horizontal and vertical lines of a rotated page. The sides of a drawn box are such lines."""
    a, b, c, d = rotation
    x0, bottom, x1, top = (ctypes.c_float() for _ in range(4))
    segments = 0
    for pdf_object, kind, matrix in _objects(page, PdfMatrix(a, c, b, d), _MAX_DRAWN_OBJECTS):
        if kind != pdfium.FPDF_PAGEOBJ_PATH:
            continue
        pdfium.FPDFPageObj_GetBounds(pdf_object, x0, bottom, x1, top)
        near, far = matrix.on_point(x0.value, bottom.value), matrix.on_point(x1.value, top.value)
        line = _line_between(near, far)
        if line:
            yield line
        elif min(abs(far[0] - near[0]), abs(far[1] - near[1])) > _MAX_LINE_WIDTH_POINTS and segments < 20_000:
            segment_count = pdfium.FPDFPath_CountSegments(pdf_object)
            if segment_count <= 1_000:
                segments += segment_count
                yield from _outline_sides(pdf_object, segment_count, _combine_matrices(pdf_object, matrix))


def _objects(page: Any, matrix: PdfMatrix, max_objects: float) -> Iterator[tuple[Any, int, PdfMatrix]]:
    """Yield `(object, type, container's matrix)` for up to `max_objects` objects of a page and of its form objects."""
    todo: list[tuple[Any, Any, int, PdfMatrix]] = []
    todo.append((page.raw, pdfium.FPDFPage_GetObject, pdfium.FPDFPage_CountObjects(page.raw), matrix))
    while todo:
        holder, get, count, matrix = todo.pop()
        max_objects -= count
        for place in range(count if max_objects >= 0 else 0):
            pdf_object = get(holder, place)
            kind = pdfium.FPDFPageObj_GetType(pdf_object)
            if kind == pdfium.FPDF_PAGEOBJ_FORM:
                inner = pdfium.FPDFFormObj_CountObjects(pdf_object)
                todo.append((pdf_object, pdfium.FPDFFormObj_GetObject, inner, _combine_matrices(pdf_object, matrix)))
            yield pdf_object, kind, matrix


def _line_between(start: Point, end: Point) -> Rule | VerticalRule | None:
    """Return the thin box with the corners `start` and `end` as a line, or None if it is too wide or too short."""
    (x0, x1), (bottom, top) = sorted((start[0], end[0])), sorted((start[1], end[1]))
    if x1 - x0 >= _MIN_LINE_LENGTH_POINTS and top - bottom <= _MAX_LINE_WIDTH_POINTS:
        return Rule(x0, x1, (bottom + top) / 2)
    if top - bottom >= _MIN_LINE_LENGTH_POINTS and x1 - x0 <= _MAX_LINE_WIDTH_POINTS:
        return VerticalRule(bottom, top, (x0 + x1) / 2)
    return None


def _outline_sides(path: Any, segment_count: int, matrix: PdfMatrix) -> Iterator[Rule | VerticalRule]:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
    x, y = ctypes.c_float(), ctypes.c_float()
    outlines: list[list[Point]] = []
    for place in range(segment_count):
        segment = pdfium.FPDFPath_GetPathSegment(path, place)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_BEZIERTO:
            return
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        if kind == pdfium.FPDF_SEGMENT_MOVETO or not outlines:
            outlines.append([])
        outlines[-1].append(matrix.on_point(x.value, y.value))
        if pdfium.FPDFPathSegment_GetClose(segment):
            outlines[-1].append(outlines[-1][0])
    if stroke.value:
        ends = [pair for points in outlines for pair in pairwise(points)]
    else:
        coordinates = (zip(*points, strict=True) for points in outlines)
        ends = [((min(xs), min(ys)), (max(xs), max(ys))) for xs, ys in coordinates]
    yield from filter(None, (_line_between(*pair) for pair in ends))


def _combine_matrices(pdf_object: Any, outer: PdfMatrix) -> PdfMatrix:
    placement = pdfium.FS_MATRIX(1, 0, 0, 1, 0, 0)
    pdfium.FPDFPageObj_GetMatrix(pdf_object, placement)
    return PdfMatrix.from_raw(placement).multiply(outer)


def read_annotations(document: Any, page: Any) -> tuple[list[BoxText], list[str]]:
    """Return the texts of form fields and text boxes with their positions, and the texts of pop-up notes."""
    boxes: list[BoxText] = []
    notes: dict[str, None] = {}
    form = document.formenv.raw if document.formenv else None
    for place in range(min(pdfium.FPDFPage_GetAnnotCount(page), 5_000)):
        annotation = pdfium.FPDFPage_GetAnnot(page, place)
        if not annotation:
            continue
        try:
            kind = pdfium.FPDFAnnot_GetSubtype(annotation)
            if pdfium.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
                continue
            if kind == pdfium.FPDF_ANNOT_FILEATTACHMENT:
                reader_notes.add("a file attached to a PDF was not read")
            text = _field_value(form, annotation) if kind == pdfium.FPDF_ANNOT_WIDGET and form else ""
            if kind not in _TYPES_WITHOUT_NOTES:
                text = _read_string(partial(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents"))
            if text and kind in (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_FREETEXT):
                box = pdfium.FS_RECTF()
                pdfium.FPDFAnnot_GetRect(annotation, box)
                boxes.append((text, box.left, box.bottom, box.right, box.top))
            elif text:
                notes[text] = None
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return boxes, list(notes)


def _field_value(form: Any, annotation: Any) -> str:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _CHECKBOXES:
        return "☒" if pdfium.FPDFAnnot_IsChecked(form, annotation) else "☐"
    if kind in _CHOICES:
        options = range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), 1_000))
        selected = (option for option in options if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, option))
        label_of = partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation)
        labels = [_read_string(partial(label_of, option)) for option in selected]
        if any(labels):
            return ", ".join(labels)
    elif kind != pdfium.FPDF_FORMFIELD_TEXTFIELD or pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return ""
    return _read_string(partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation))


def _read_string(call: Callable[..., int]) -> str:
    """Return the UTF-16 text that the PDFium function `call` writes to a buffer. Drop empty lines and extra spaces."""
    size = min(call(None, 0), 50_000)
    buffer = (ctypes.c_ushort * (size // 2))()
    if size < 2 or call(buffer, size) > size:
        return ""
    text = bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0]
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


_MAX_CHARACTERS = 200_000
_MAX_WORDS = 30_000
_MAX_TEXT_OBJECTS = 10_000
_MAX_SLANTED_SHARE = 0.2
_FIELD_CHARACTER_WIDTH_EM = 0.5
_FIELD_LINE_HEIGHT_EM = 1.2
_MIN_SPACE_EM = 0.28
_MIN_GAP_QUOTIENT = 0.7
_MAX_SLOPE = 0.1
_WORD = re.compile("[^\\s\x00-\x1f\ufffe\uffff\u200b]+[\x02\ufffe]?")
_LETTER = re.compile("[\ud800-\udbff][\udc00-\udfff]|[^\\s\x00\x01\x03-\x1f\uffff\u200b]")
_UNMAPPED = re.compile("[\x01\x03-\x08\x0e-\x1f\ufffd\ue000-\uf8ff]")
_OVERPRINTED = re.compile(  # letters printed twice for bold type: `HHaarrbboouurr`, `HHarbour`, `atat`
    r"\b(?:(?:([^\W\d_])\1(?!\1)){2,}\b|([A-Z])\2[a-z]{2}|(?!([^\W\d_])\3)([^\W\d_]{2,20})\4\b)"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_HYPHEN = re.compile("[\ufffe\x02]\r?\n?")
# TeX fonts without a Unicode map encode ligatures and quotation marks as control characters (Cork encoding)
_CORK = re.compile("[\x10-\x16\x1b-\x1f](?=\\w)|(?<=\\w)[\x10-\x16\x1b-\x1f]")
_CORK_SIGNS = dict(zip("\x10\x11\x12\x13\x14\x15\x16\x1b\x1c\x1d\x1e\x1f", "“”„«»–—ﬀﬁﬂﬃﬄ", strict=True))
_LIGATURES = str.maketrans(dict(zip("ﬀﬁﬂﬃﬄ", ("ff", "fi", "fl", "ffi", "ffl"), strict=True)))
LINE_END_IN_SENTENCE = re.compile(r"(?<=[^\W\d_A-Z]|[,;])\n(?=[^\W\d_A-Z])")
_BOLD_NAME = re.compile(r"bold|black|heavy|demi|-medi\b|cm\w{0,9}bx|bx\d|[a-z]TB|-B\b", re.ASCII)
_PLAIN_NAME = re.compile("^(?:helvetica|arial|courier|times)|-(?:regu|roman|book|light|ital|obli)", re.ASCII)
_ROTATIONS: tuple[Rotation, ...] = ((1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0))

WordsByTurns = dict[int | None, tuple[bool, list[Word]]]  # quarter turns → (whether read from right to left, words)
Style = Callable[[int], tuple[bool, bool]]  # index of a character → (whether bold, whether monospaced)


@dataclass(slots=True)
class PdfPage:
    """A page, rotated so that most words are upright, and mirrored if the text is read from right to left."""

    text: str = ""  # text in PDFium's order; empty if the page has `lines`
    lines: list[PdfLine] = field(default_factory=list)
    drawn: list[Rule | VerticalRule] = field(default_factory=list)
    bottom_and_top: tuple[float, float] = (0.0, 0.0)
    notes: list[str] = field(default_factory=list)
    is_scan: bool = False


def read_page(document: Any, index: int) -> PdfPage:
    """Return a page, or an empty `PdfPage` if the page is damaged or has too many text objects."""
    with suppress(pypdfium2.PdfiumError), closing(document[index]) as page:
        if _has_too_many_texts(page):
            reader_notes.add(f"a PDF page with more than {_MAX_TEXT_OBJECTS:,} pieces of text was not read")
            return PdfPage()
        with closing(page.get_textpage()) as text_page:
            text, by_turns = _text_or_words(page, text_page)
        boxes, notes = read_annotations(document, page)
        is_blank = not text.strip() and not any(turn is not None for turn in by_turns)
        is_scan = is_blank and bool(pdfium.FPDFPage_CountObjects(page))
        if text:
            return PdfPage(text, notes=[*(box[0] for box in boxes), *notes], is_scan=is_scan)
        turn = max(by_turns, key=lambda turn: len(by_turns[turn][1]), default=pdfium.FPDFPage_GetRotation(page) % 4)
        from_the_right, words = by_turns.pop(turn, (False, []))
        turned_texts = [" ".join(word.text for word in other) for _, other in by_turns.values()]
        a, b, c, d = _ROTATIONS[turn or 0]
        if from_the_right:
            a, b = -a, -b
        drawn = list(drawn_lines(page, (a, b, c, d)) if words else ())
        words = join_spaced_words(words)
        words += _words_in_boxes(boxes, (a, b, c, d), sorted(word.size for word in words))
        west, south, east, north = page.get_bbox()
        low, high = sorted((c * west + d * south, c * east + d * north))
        return PdfPage("", find_lines(words), drawn, (low, high), [*turned_texts, *notes], is_scan)
    return PdfPage()


def _has_too_many_texts(page: Any) -> bool:
    """Return whether a page has so many text objects that PDFium's insertion sort could take over a second."""
    kinds = (kind for _, kind, _ in _objects(page, PdfMatrix(), math.inf))
    texts = (kind for kind in kinds if kind == pdfium.FPDF_PAGEOBJ_TEXT)
    return next(islice(texts, _MAX_TEXT_OBJECTS, None), None) is not None


def _words_in_boxes(boxes: Sequence[BoxText], rotation: Rotation, sizes: Sequence[float]) -> Iterator[Word]:
    """Yield the words of form fields and text boxes. Font sizes are guessed, up to the median of the sorted `sizes`."""
    a, b, c, d = rotation
    usual = sizes[len(sizes) // 2] if sizes else 10.0
    for text, *sides in boxes:
        corners = [(a * x + b * y, c * x + d * y) for x, y in (sides[:2], sides[2:])]
        (west, east), (bottom, top) = (sorted(values) for values in zip(*corners, strict=True))
        lines = text.splitlines()
        size = min(usual, max(0.8 * (top - bottom), 1.0))
        base = (top + bottom) / 2 - 0.35 * size
        if len(lines) > 1:
            size = min(size, (top - bottom) / (_FIELD_LINE_HEIGHT_EM * len(lines)))
            base = top - size
        step = min(_FIELD_CHARACTER_WIDTH_EM * size, (east - west) / max(map(len, lines)))
        for number, line in enumerate(lines):
            x0 = west
            for word in line.split():
                yield Word(word, x0, x0 + step * len(word), base - _FIELD_LINE_HEIGHT_EM * size * number, size)
                x0 += step * (len(word) + 1)


def _text_or_words(page: Any, text_page: Any) -> tuple[str, WordsByTurns]:
    """Return `(text in PDFium's order, {})` if the layout of a page cannot be followed, else `("", words)`."""
    count = pdfium.FPDFText_CountChars(text_page)
    text = _all_text(text_page, count) if 0 < count <= _MAX_CHARACTERS else ""
    text = _CORK.sub(lambda match: _CORK_SIGNS[match[0]], text)
    if not text:
        return _plain_text(text_page) if count else "", {}
    strange = len(_UNMAPPED.findall(text))
    if 5 * strange > len(text):
        reader_notes.add("a PDF font that does not identify its letters: its text may be unreadable")
    edges, raw = page.get_bbox(), text_page.raw
    style = _style_reader(raw)
    needs_letters = FROM_THE_RIGHT.search(text) or len(list(islice(_OVERPRINTED.finditer(text), 2))) == 2
    by_turns: WordsByTurns = {} if needs_letters else _read_words(raw, text, edges, style)
    if not by_turns:
        for turn, glyphs in _read_glyphs(raw, text, edges).items():
            is_right, runs = words_of_glyphs(glyphs)
            by_turns[turn] = is_right, [Word(_normalise_word(run.text), *run[1:5], *style(run.offset)) for run in runs]
    total = sum(len(words) for _, words in by_turns.values())
    is_slanted = len(by_turns.get(None, (False, []))[1]) > _MAX_SLANTED_SHARE * total
    if is_slanted:
        reader_notes.add("a PDF page of vertical or slanted text: its layout was not followed")
    return (_plain_text(text_page), {}) if is_slanted or total > _MAX_WORDS else ("", by_turns)


def _plain_text(text_page: Any) -> str:
    text = _HYPHEN.sub("", text_page.get_text_bounded()).replace("\r\n", "\n")
    return LINE_END_IN_SENTENCE.sub(" ", tidy(text))


def _all_text(text_page: Any, count: int) -> str:
    """Return the text with one character per UTF-16 code unit, because PDFium's indexes count code units."""
    buffer = (ctypes.c_ushort * (count + 1))()
    if pdfium.FPDFText_GetText(text_page, 0, count, buffer) == count + 1:
        return "".join(map(chr, buffer[:count]))
    codes = (pdfium.FPDFText_GetUnicode(text_page, place) for place in range(count))
    return "".join(chr(code) if 0 < code < 0x110000 else " " for code in codes)


def _quarter_turns(a: float, b: float, c: float, d: float) -> int | None:
    """Return the clockwise quarter turns that make text upright, or None if the text is slanted."""
    if abs(b) <= _MAX_SLOPE * abs(a):
        return 0 if a > 0 else 2
    if abs(a) <= _MAX_SLOPE * abs(b):
        return 1 if b > 0 else 3
    return None


def _origins(
    text_page: Any, text: str, pattern: re.Pattern[str], edges: Sequence[float]
) -> Iterator[tuple[re.Match[str], int | None, Point, float]]:
    """Yield `(match, quarter turns, origin, font size)` for each match of a pattern that begins on the visible page."""
    west, south, east, north = edges
    x, y, matrix = ctypes.c_double(), ctypes.c_double(), pdfium.FS_MATRIX()
    at = ctypes.byref(x), ctypes.byref(y)
    for match in pattern.finditer(text):
        place = match.start()
        pdfium.FPDFText_GetCharOrigin(text_page, place, *at)
        if west <= x.value <= east and south <= y.value <= north:
            pdfium.FPDFText_GetMatrix(text_page, place, matrix)
            size = abs(pdfium.FPDFText_GetFontSize(text_page, place)) * math.hypot(matrix.c, matrix.d)
            yield match, _quarter_turns(matrix.a, matrix.b, matrix.c, matrix.d), (x.value, y.value), size


def _read_words(text_page: Any, text: str, edges: Sequence[float], style: Style) -> WordsByTurns:
    x0, x1, bottom, top = sides = [ctypes.c_double() for _ in range(4)]
    box = [ctypes.byref(side) for side in sides]
    words: defaultdict[int | None, list[Word]] = defaultdict(list)
    spans: defaultdict[int | None, list[Span]] = defaultdict(list)
    for match, direction, (x, y), size in _origins(text_page, text, _WORD, edges):
        a, b, c, d = _ROTATIONS[direction or 0]
        start, base = a * x + b * y, c * x + d * y
        pdfium.FPDFText_GetCharBox(text_page, match.end() - 1, *box)
        end = max(a * x0.value + b * bottom.value, a * x1.value + b * top.value)
        lows = c * x0.value + d * bottom.value, c * x1.value + d * top.value
        is_askew = end < start or min(lows) > base + 2 * size or max(lows) < base - 2 * size
        turn = None if is_askew else direction
        words[turn].append(Word(_normalise_word(match[0]), start, end, base, size, *style(match.start())))
        spans[turn].append(match.span())
    return {
        turn: (False, _join_words(text_page, line_words, spans[turn], *_ROTATIONS[turn or 0][:2]))
        for turn, line_words in words.items()
    }


def _join_words(text_page: Any, words: Sequence[Word], spans: Sequence[Span], a: float, b: float) -> list[Word]:
    """Join words that PDFium divides at wide gaps between letters, as in `Nort h`."""
    joined: list[Word] = []
    start = 0
    for end in range(1, len(words) + 1):
        if end < len(words) and _may_be_one_word(text_page, words[end - 1 : end + 1], spans[end - 1 : end + 1]):
            continue
        run = range(start, end)
        pairs = [(place, place + 1) for first, after in spans[start:end] for place in range(first, after - 1)]
        gaps = [_gap_between(text_page, *pair, a, b) for pair in pairs] if len(run) > 1 else []
        letter_gap = median(gaps) if gaps else 0.0
        for each in run:
            word = words[each]
            gap = _gap_between(text_page, spans[each - 1][1] - 1, spans[each][0], a, b) if each > start else 0.0
            if each > start and gap * _MIN_GAP_QUOTIENT <= letter_gap:
                word = joined[-1]._replace(text=joined.pop().text + word.text, x1=word.x1)
            joined.append(word)
        start = end
    return joined


def _may_be_one_word(text_page: Any, words: Sequence[Word], spans: Sequence[Span]) -> bool:
    (word, after), ((_, end), (begin, _)) = words, spans
    return (
        (len(word.text) <= 2 or len(after.text) <= 2)
        and word.text.isalpha()
        and after.text.isalpha()
        and -after.size < after.x0 - word.x1 < _MIN_SPACE_EM * after.size
        and word.base == after.base
        and begin - end == 1
        and pdfium.FPDFText_IsGenerated(text_page, end) == 1
    )


def _gap_between(text_page: Any, place: int, after: int, a: float, b: float) -> float:
    """Return the distance in points from the end of a letter's advance width to the origin of the next letter."""
    box, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetLooseCharBox(text_page, place, box)
    pdfium.FPDFText_GetCharOrigin(text_page, after, x, y)
    return float(a * x.value + b * y.value - max(a * box.left + b * box.bottom, a * box.right + b * box.top))


def _read_glyphs(text_page: Any, text: str, edges: Sequence[float]) -> dict[int | None, list[Glyph]]:
    box = pdfium.FS_RECTF()
    sides = west_side, east_side, south_side, north_side = [ctypes.c_double() for _ in range(4)]
    glyphs: defaultdict[int | None, list[Glyph]] = defaultdict(list)
    last: Point | None = None
    for match, turn, origin, size in _origins(text_page, text, _LETTER, edges):
        place, (x, y) = match.start(), origin
        a, b, c, d = _ROTATIONS[turn or 0]
        start, base = a * x + b * y, c * x + d * y
        if MARK.match(match[0]):  # a combining mark has no width
            pdfium.FPDFText_GetCharBox(text_page, place, *sides)
            across, along = west_side.value + east_side.value, south_side.value + north_side.value
            start = x0 = x1 = (a * across + b * along) / 2
        else:
            pdfium.FPDFText_GetLooseCharBox(text_page, place, box)
            x0, x1 = sorted((a * box.left + b * box.bottom, a * box.right + b * box.top))
        if last == origin and glyphs[turn]:  # same position: a ligature, or a letter printed twice
            one = glyphs[turn][-1]
            if one.text != match[0]:
                glyphs[turn][-1] = one._replace(text=one.text + match[0], x1=max(one.x1, x1))
            continue
        last = origin
        glyphs[turn].append(Glyph(match[0], min(start, x0), x1, base, size, place))
    return glyphs


def _normalise_word(word: str) -> str:
    """Join the surrogate pairs of a word, and replace ligatures by letters and all kinds of hyphens by `-`."""
    if word.isascii() and word[-1] != "\x02":
        return word
    if _SURROGATE.search(word):
        word = word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if word[-1] in ("\x02", "\ufffe"):
        word = word[:-1] + "-"
    return word.translate(_LIGATURES).replace("\u00ad", "-")


def _style_reader(text_page: Any) -> Style:
    """Return a function that returns the style of the character at an index. Styles are cached by font."""
    buffer, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    styles: dict[int, tuple[bool, bool]] = {}

    def style(place: int) -> tuple[bool, bool]:
        pdf_object = pdfium.FPDFText_GetTextObject(text_page, place)
        font = pdfium.FPDFTextObj_GetFont(pdf_object) if pdf_object else None
        key = ctypes.addressof(font.contents) if font else 0
        if key not in styles:
            pdfium.FPDFText_GetFontInfo(text_page, place, buffer, 128, ctypes.byref(flags))
            text = buffer.value.decode("latin-1").rpartition("+")[2]
            name = text if text.endswith(("TB", "-B")) else text.lower()
            is_bold = bool(_BOLD_NAME.search(name))
            if not is_bold and not _PLAIN_NAME.search(name):  # the font's name does not tell, so use its weight
                is_bold = pdfium.FPDFText_GetFontWeight(text_page, place) >= 600
            styles[key] = is_bold, bool(flags.value & 1) or (bool(font) and _has_one_width(font))
        return styles[key]

    return style


def _has_one_width(font: Any) -> bool:
    """Return whether all letters of a font have the same width. TeX does not mark its monospaced fonts as such."""
    width, widths = ctypes.c_float(), Counter[int]()
    for code in string.ascii_letters.encode():
        pdfium.FPDFFont_GetGlyphWidth(font, code, 1_000.0, width)
        widths[round(width.value)] += 1
    del widths[0]
    counts = [count for em, count in widths.items() if 480 <= em <= 650]
    return len(widths) <= 2 and len(counts) == 1 and counts[0] >= 6  # missing letters may have a second width
