"""The straight lines that are drawn on a page, by PDFium."""

import ctypes
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

_MOST_OBJECTS = 20_000  # of a page, of which some programs make one of each letter: looked at for lines
_MOST_FORMS = 100  # pictures and pages within it
_MOST_SEGMENTS = 20_000  # of the paths of a page that are no line themselves
_MOST_OF_A_PATH = 1_000
_THIN = 3.0  # points: what is drawn lower than this is a line
_LONG = 5.0  # points: and longer than this

Point = tuple[float, float]
Turn = tuple[int, int, int, int]  # x' = ax + by, y' = cx + dy
Matrix = tuple[float, float, float, float, float, float]  # as PDF has it: x' = ax + cy + e, y' = bx + dy + f


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


def drawn_lines(page: Any, turn: Turn) -> Iterator[Rule | Upright]:
    """Yield the straight lines on a page that is turned so, and those that are sides of outlined boxes."""
    a, b, c, d = turn
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    sides = [ctypes.byref(side) for side in (left, bottom, right, top)]
    page = page.raw
    count = pdfium.FPDFPage_CountObjects(page)
    objects = segments = 0
    todo: list[tuple[Any, Any, int, Matrix]] = [(page, pdfium.FPDFPage_GetObject, count, (a, c, b, d, 0.0, 0.0))]
    while todo:
        holder, get, count, matrix = todo.pop()
        objects += count
        if objects > _MOST_OBJECTS:
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
            near, far = _at(matrix, left.value, bottom.value), _at(matrix, right.value, top.value)
            line = _line(near, far)
            if line:
                yield line
            elif min(abs(far[0] - near[0]), abs(far[1] - near[1])) > _THIN and segments < _MOST_SEGMENTS:
                parts = pdfium.FPDFPath_CountSegments(thing)
                if parts <= _MOST_OF_A_PATH:
                    segments += parts
                    yield from _sides(thing, parts, _times(_matrix_of(thing), matrix))


def _line(start: Point, end: Point) -> Rule | Upright | None:
    """Return the line that two corners of a narrow box, or the two ends of a stroke, are; None where it is none."""
    width, height = abs(end[0] - start[0]), abs(end[1] - start[1])
    if width >= _LONG and height <= _THIN:
        return Rule(min(start[0], end[0]), max(start[0], end[0]), (start[1] + end[1]) / 2)
    if height >= _LONG and width <= _THIN:
        return Upright((start[0] + end[0]) / 2, min(start[1], end[1]), max(start[1], end[1]))
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
    boxes = [(min(xs), min(ys), max(xs), max(ys)) for xs, ys in sides]
    if stroke.value:
        ends = [pair for points in figures for pair in pairwise(points)]
    elif len(boxes) == 2 and all(abs(a - b) <= _THIN for a, b in zip(*boxes, strict=True)):  # a frame
        west, south, east, north = boxes[0]
        corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
        ends = list(pairwise(corners))
    else:
        ends = [((west, south), (east, north)) for west, south, east, north in boxes]
    yield from filter(None, (_line(*pair) for pair in ends))


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
