"""PPTX to content: a section for each slide, with its notes; hidden slides and comments are left out."""

from collections.abc import Iterator
from typing import Any

from indexer.read.extraction import Extraction
from indexer.read.office.properties import core_properties, main_part
from indexer.read.office.zipped import Package
from indexer.records import Section

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MAIN = "ppt/presentation.xml"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TITLES = ("title", "ctrTitle")
_NOT_TEXT = ("sldNum", "dt", "ftr", "hdr", "sldImg")  # placeholders that are the same on every slide


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a PPTX file; raises ParseError."""
    with Package(body) as package:
        main = main_part(package, _MAIN)
        relations = package.relations(main)
        sections = []
        for number, entry in enumerate(package.xml(main).iter(f"{_P}sldId"), start=1):
            _, name = relations.get(entry.get(f"{_R}id", ""), ("", ""))
            if name not in package:
                continue
            slide = package.xml(name)
            if slide.get("show") in ("0", "false"):
                continue
            title = " ".join(" ".join(lines) for kind, lines in _shapes(slide) if kind in _TITLES)
            blocks = ["\n".join(lines) for kind, lines in _shapes(slide) if kind not in _TITLES]
            notes = [
                part for kind, part in package.relations(name).values() if kind == "notesSlide" and part in package
            ]
            blocks += ["\n".join(lines) for part in notes for _, lines in _shapes(package.xml(part))]
            label = f"Slide {number}"
            text = "\n\n".join(block for block in blocks if block.strip())
            sections.append(Section((f"{label}: {title}" if title else label,), f"slide={number}", text or title))
        name_of_deck, declared = core_properties(package)
    return Extraction(name_of_deck, tuple(sections), declared)


def _shapes(slide: Any) -> Iterator[tuple[str, list[str]]]:
    """Kind of placeholder and lines of every shape and table that shows text, in the order they were laid down."""
    for shape in slide.iter(f"{_P}sp", f"{_A}tbl"):
        if any(above.tag == _FALLBACK for above in shape.iterancestors()) or _is_hidden(shape):
            continue
        if shape.tag == f"{_A}tbl":
            rows = (row.iterchildren(f"{_A}tc") for row in shape.iter(f"{_A}tr"))
            yield "", [" | ".join(" ".join(_lines(cell)) for cell in row) for row in rows]
            continue
        placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        kind = str(placeholder.get("type", "")) if placeholder is not None else ""
        lines = _lines(shape)
        if lines and kind not in _NOT_TEXT:
            yield kind, lines


def _is_hidden(shape: Any) -> bool:
    properties = shape.find(f"{_P}nvSpPr/{_P}cNvPr")
    return properties is not None and properties.get("hidden") in ("1", "true")


def _lines(shape: Any) -> list[str]:
    paragraphs = (paragraph.iter(f"{_A}t", f"{_A}br") for paragraph in shape.iter(f"{_A}p"))
    lines = ("".join(run.text or " " if run.tag == f"{_A}t" else " " for run in runs) for runs in paragraphs)
    return [line for line in lines if line.strip()]
