"""What lies on a page rather than in it: values of form fields, as words in their boxes, and people's notes."""

import ctypes
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from indexer import notes

_MOST = 5_000  # annotations of a page
_MOST_OPTIONS = 1_000  # of a choice field
_LONGEST = 50_000  # bytes of a text
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD = 1 << 13  # flag of a text field
_BOXES = frozenset((pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON))
_CHOICES = frozenset((pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX))
_NO_NOTES = frozenset((pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_SCREEN))
_USUAL = 10.0  # points: size of type where the page has none
_WIDTH = 0.5  # of the size: of a letter, roughly
_STEP = 1.2  # of the size: between lines


class Filled(NamedTuple):
    """A text in a box; points on the page as the file has it."""

    text: str
    left: float
    bottom: float
    right: float
    top: float


class Piece(NamedTuple):
    """A word of a text in a box, with its place there."""

    text: str
    left: float
    right: float
    base: float
    size: float


def read_annotations(document: Any, page: Any) -> tuple[list[Filled], list[str]]:
    """Return the texts that stand in boxes on a page, and its notes, which a viewer shows when they are opened."""
    filled: list[Filled] = []
    opened: dict[str, None] = {}
    form = document.formenv.raw if document.formenv else None
    for place in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MOST)):
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
                filled.append(Filled(text, box.left, box.bottom, box.right, box.top))
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
    is_hidden = kind == pdfium.FPDF_FORMFIELD_TEXTFIELD and (
        pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
    )
    if is_hidden or kind not in (pdfium.FPDF_FORMFIELD_TEXTFIELD, *_CHOICES):
        return ""
    chosen = list(_chosen(form, annotation)) if kind in _CHOICES else []
    return ", ".join(chosen) or _string(partial(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation))


def _chosen(form: Any, annotation: Any) -> Iterator[str]:
    for option in range(min(pdfium.FPDFAnnot_GetOptionCount(form, annotation), _MOST_OPTIONS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, option):
            yield _string(partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, option))


def _string(call: Callable[..., int]) -> str:
    """Return the UTF-16 text that a function of PDFium writes into the room it is given, as lines."""
    size = min(call(None, 0), _LONGEST)
    if size < 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    if call(buffer, size) > size:
        return ""
    text = bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0]
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def pieces(filled: Filled, usual: float | None) -> Iterator[Piece]:
    """Yield the words of a text in a box, wrapped to fit into it, near the size that the page's text has."""
    width, height = filled.right - filled.left, filled.top - filled.bottom
    size = min(usual or _USUAL, max(0.8 * height, 1.0))
    letters = max(1, int(width / (_WIDTH * size)))
    lines = [part for line in filled.text.splitlines() for part in textwrap.wrap(line, letters) or [""]]
    if height < 2 * _STEP * size and "\n" not in filled.text:
        lines = [filled.text]
    if len(lines) > 1:
        size = min(size, height / (_STEP * len(lines)))
    step = min(_WIDTH * size, width / max(map(len, lines)))
    base = filled.top - size if len(lines) > 1 else (filled.top + filled.bottom) / 2 - 0.35 * size
    for number, line in enumerate(lines):
        left = filled.left
        for word in line.split():
            yield Piece(word, left, left + step * len(word), base - _STEP * size * number, size)
            left += step * (len(word) + 1)
