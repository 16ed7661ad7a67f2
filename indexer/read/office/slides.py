"""Read PPTX files: a section with notes and comments for each slide that is not hidden."""

from collections.abc import Iterator
from typing import Any

from indexer.read.office.package import (
    DRAWN,
    A,
    M,
    Package,
    decode_font_text,
    document_properties,
    drawing_texts,
    equation_text,
    main_part,
    visible_children,
)
from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.records import COLUMNS, Extraction, Section

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PROPERTIES = tuple(f"{_P}nv{kind}Pr" for kind in ("Sp", "GrpSp", "GraphicFrame", "Pic", "CxnSp"))
_TITLES = ("title", "ctrTitle")
_SKIPPED_PLACEHOLDERS = ("sldNum", "dt", "sldImg")
_RUNNING = ("ftr", "hdr")  # placeholders that are the same on most slides
_Relations = dict[str, tuple[str, str]]


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a PPTX file. Raises ParseError."""
    package = Package(body)
    main = main_part(package, "ppt/presentation.xml")
    slides = package.relations(main)
    sections = []
    running: set[str] = set()
    for number, entry in enumerate(package.xml(main).iter(f"{_P}sldId"), start=1):
        _, name = slides.get(entry.get(f"{_R}id", ""), ("", ""))
        root = package.xml(name) if name in package else None
        if root is None or root.get("show") in ("0", "false"):
            continue
        relations = package.relations(name)
        shown = list(_blocks(root, package, relations))
        title = " ".join(" ".join(lines) for kind, lines in shown if kind in _TITLES)
        for kind, page in relations.values():
            if kind == "notesSlide" and page in package:
                shown += _blocks(package.xml(page), package, package.relations(page))
            elif kind == "comments" and page in package:
                comments = package.xml(page)
                shown.append(("", [*(text.text or "" for text in comments.iter(f"{_P}text")), *_lines(comments)]))
        blocks = []
        for kind, lines in shown:
            block = "\n".join(lines)
            if kind not in (*_TITLES, *_RUNNING) or (kind in _RUNNING and block not in running):
                blocks.append(block)
            running.update([block] if kind in _RUNNING else [])
        label = f"Slide {number}"
        text = "\n\n".join(block for block in blocks if block.strip())
        sections.append(Section((f"{label}: {title}" if title else label,), f"slide={number}", text or title))
    name_of_deck, declared = document_properties(package)
    return Extraction(name_of_deck, tuple(sections), declared)


def _blocks(node: Any, package: Package, relations: _Relations) -> Iterator[tuple[str, list[str]]]:
    for child in visible_children(node):
        names = next((element.find(f"{_P}cNvPr") for element in child.iterchildren(*_PROPERTIES)), None)
        if names is not None and names.get("hidden") in ("1", "true"):
            continue
        if child.tag == f"{_P}sp":
            placeholder = child.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
            kind = str(placeholder.get("type", "")) if placeholder is not None else ""
            if kind not in _SKIPPED_PLACEHOLDERS and (lines := _lines(child)):
                yield kind, lines
        elif child.tag == f"{A}tbl":
            yield "", _table(child)
        elif child.tag in DRAWN:
            yield from (("", [text]) for text in drawing_texts(child, package, relations))
        else:
            yield from _blocks(child, package, relations)


def _table(table: Any) -> list[str]:
    def span(cell: Any, name: str) -> int:
        text = cell.get(name, "1")
        return min(int(text), 1_000) if text.isdecimal() and len(text) < 6 else 1

    grid = spread_cells(
        [
            Cell(" ".join(_lines(cell)), span(cell, "rowSpan"), span(cell, "gridSpan"))
            for cell in row.iterchildren(f"{A}tc")
            if not any(cell.get(mark) in ("1", "true") for mark in ("hMerge", "vMerge"))
        ]
        for row in table.iterchildren(f"{A}tr")
    )
    begin, end = find_head(grid)
    names = [column_names(grid[begin:end])] if end > begin else []
    return [COLUMNS.join(row) for row in (*grid[:begin], *names, *grid[end:])]


def _lines(shape: Any) -> list[str]:
    paragraphs = ("".join(_run_texts(paragraph)) for paragraph in shape.iter(f"{A}p"))
    return [line for paragraph in paragraphs for line in paragraph.split("\n") if line.strip()]


def _run_texts(node: Any) -> Iterator[str]:
    for child in visible_children(node):
        if child.tag == f"{A}t":
            fonts = node.find(f"{A}rPr/{A}sym")
            yield decode_font_text(child.text or "", fonts.get("typeface", "") if fonts is not None else "")
        elif child.tag == f"{A}br":
            yield "\n"
        elif child.tag.startswith(M):
            yield equation_text(child)
        else:
            yield from _run_texts(child)
