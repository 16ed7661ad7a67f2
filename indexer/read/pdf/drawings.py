"""Read the drawn lines, form fields and notes of a page."""

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from indexer import notes

_THIN = 3.0  # points: what is drawn lower than this is a line
_LONG = 5.0  # points: and longer than this
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD = 1 << 13  # flag of a text field
_BOXES = frozenset((pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON))
_CHOICES = frozenset((pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX))
_NO_NOTES = frozenset((pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_SCREEN))

Point = tuple[float, float]
Turn = tuple[int, int, int, int]  # x' = ax + by, y' = cx + dy
Filled = tuple[str, float, float, float, float]  # a text, and the left, bottom, right and top of its box
Matrix = tuple[float, float, float, float, float, float]  # as PDF has it: x' = ax + cy + e, y' = bx + dy + f


class Rule(NamedTuple):
    """A horizontal line that is drawn."""

    left: float
    right: float
    y: float


class Upright(NamedTuple):
    """A vertical line that is drawn."""

    bottom: float
    top: float
    x: float


def drawn_lines(page: Any, turn: Turn) -> Iterator[Rule | Upright]:
    """Yield the straight lines on a page that is turned so, and those that are sides of outlined boxes."""
    a, b, c, d = turn
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    page = page.raw
    count = pdfium.FPDFPage_CountObjects(page)
    objects = segments = 0
    todo: list[tuple[Any, Any, int, Matrix]] = [(page, pdfium.FPDFPage_GetObject, count, (a, c, b, d, 0.0, 0.0))]
    while todo:
        holder, get, count, matrix = todo.pop()
        objects += count
        if objects > 20_000:
            return
        for place in range(count):
            thing = get(holder, place)
            kind = pdfium.FPDFPageObj_GetType(thing)
            if kind == pdfium.FPDF_PAGEOBJ_FORM and len(todo) < 100:
                inner = pdfium.FPDFFormObj_CountObjects(thing)
                todo.append((thing, pdfium.FPDFFormObj_GetObject, inner, _placed(thing, matrix)))
            if kind != pdfium.FPDF_PAGEOBJ_PATH:
                continue
            pdfium.FPDFPageObj_GetBounds(thing, left, bottom, right, top)
            near, far = _at(matrix, left.value, bottom.value), _at(matrix, right.value, top.value)
            line = _line(near, far)
            if line:
                yield line
            elif min(abs(far[0] - near[0]), abs(far[1] - near[1])) > _THIN and segments < 20_000:
                parts = pdfium.FPDFPath_CountSegments(thing)
                if parts <= 1_000:
                    segments += parts
                    yield from _sides(thing, parts, _placed(thing, matrix))


def _line(start: Point, end: Point) -> Rule | Upright | None:
    """Return the line that two corners of a narrow box, or the two ends of a stroke, are; None where it is none."""
    (left, right), (bottom, top) = sorted((start[0], end[0])), sorted((start[1], end[1]))
    if right - left >= _LONG and top - bottom <= _THIN:
        return Rule(left, right, (bottom + top) / 2)
    if top - bottom >= _LONG and right - left <= _THIN:
        return Upright(bottom, top, (left + right) / 2)
    return None


def _sides(path: Any, parts: int, matrix: Matrix) -> Iterator[Rule | Upright]:
    """Yield the straight strokes of a path, or the narrow boxes that are filled by it."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fill, stroke)
    x, y = ctypes.c_float(), ctypes.c_float()
    figures: list[list[Point]] = []
    for place in range(parts):
        segment = pdfium.FPDFPath_GetPathSegment(path, place)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_BEZIERTO:
            return
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        if kind == pdfium.FPDF_SEGMENT_MOVETO or not figures:
            figures.append([])
        figures[-1].append(_at(matrix, x.value, y.value))
        if pdfium.FPDFPathSegment_GetClose(segment):
            figures[-1].append(figures[-1][0])
    sides = [tuple(zip(*points, strict=True)) for points in figures]
    if stroke.value:
        ends = [pair for points in figures for pair in pairwise(points)]
    else:
        ends = [((min(xs), min(ys)), (max(xs), max(ys))) for xs, ys in sides]
    yield from filter(None, (_line(*pair) for pair in ends))


def _placed(thing: Any, outer: Matrix) -> Matrix:
    """Return the matrix of an object that stands where `outer` puts it."""
    own = pdfium.FS_MATRIX(1, 0, 0, 1, 0, 0)
    pdfium.FPDFPageObj_GetMatrix(thing, own)
    m, n, o, p, q, r = outer
    return (
        *(own.a * m + own.b * o, own.a * n + own.b * p),
        *(own.c * m + own.d * o, own.c * n + own.d * p),
        *(own.e * m + own.f * o + q, own.e * n + own.f * p + r),
    )


def _at(matrix: Matrix, x: float, y: float) -> Point:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def read_annotations(document: Any, page: Any) -> tuple[list[Filled], list[str]]:
    """Return the texts that stand in boxes on a page, and its notes, which a viewer shows when they are opened."""
    filled: list[Filled] = []
    opened: dict[str, None] = {}
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
                notes.add("a file attached to a PDF was not read")
            text = _value(form, annotation) if kind == pdfium.FPDF_ANNOT_WIDGET and form else ""
            if kind not in _NO_NOTES:
                text = _string(partial(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents"))
            if text and kind in (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_FREETEXT):
                box = pdfium.FS_RECTF()
                pdfium.FPDFAnnot_GetRect(annotation, box)
                filled.append((text, box.left, box.bottom, box.right, box.top))
            elif text:
                opened[text] = None
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return filled, list(opened)


def _value(form: Any, annotation: Any) -> str:
    """Return what a form field shows: its text, the options that are chosen, or whether a box is ticked."""
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in _BOXES:
        return "☒" if pdfium.FPDFAnnot_IsChecked(form, annotation) else "☐"
    if kind in _CHOICES:
        options = range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), 1_000))
        selected = (option for option in options if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, option))
        labels = [_string(partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, option)) for option in selected]
        if any(labels):
            return ", ".join(labels)
    elif kind != pdfium.FPDF_FORMFIELD_TEXTFIELD or pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return ""
    return _string(partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation))


def _string(call: Callable[..., int]) -> str:
    """Return the UTF-16 text that a function of PDFium writes into the room it is given, as lines."""
    size = min(call(None, 0), 50_000)
    buffer = (ctypes.c_ushort * (size // 2))()
    if size < 2 or call(buffer, size) > size:
        return ""
    text = bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0]
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
