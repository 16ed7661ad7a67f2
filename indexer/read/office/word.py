"""DOCX to content.

The text is written as HTML and read by the one reader of HTML there is, so that headings, lists and tables come out
alike. What a reader of the document would not see is left out: hidden runs, deletions, field codes; comments are in a
part of their own, which is not read. Libraries for DOCX miss insertions and content controls, or show hidden text.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

from indexer.read.extraction import Extraction
from indexer.read.html.main_content import extract
from indexer.read.office.properties import core_properties, main_part
from indexer.read.office.zipped import Package

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MAIN = "word/document.xml"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"  # repeats what stands beside it
_DELETED = frozenset({f"{_W}del", f"{_W}moveFrom", _FALLBACK})
_BREAKS = frozenset({f"{_W}br", f"{_W}cr"})
_OFF = ("0", "false", "off", "none")
_LOWEST = 6  # heading level of HTML


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a DOCX file; raises ParseError."""
    with Package(body) as package:
        main = main_part(package, _MAIN)
        parts = [name for kind, name in package.relations(main).values() if kind in ("footnotes", "endnotes")]
        styles = next((name for kind, name in package.relations(main).values() if kind == "styles"), "")
        walker = _Walker(package.xml(styles) if styles in package else None)
        markup = "".join(walker.blocks(package.xml(main)))
        markup += "".join("".join(walker.blocks(package.xml(name))) for name in parts if name in package)
        title, declared = core_properties(package)
    found = extract(f"<body>{markup}</body>")
    return Extraction(title or found.title, found.sections, declared)


class _Walker:
    def __init__(self, styles: Any) -> None:
        self._levels: dict[str, int] = {}  # style id: heading level
        self._hidden: set[str] = set()  # ids of styles whose text is hidden
        for style in styles.iter(f"{_W}style") if styles is not None else ():
            name = style.find(f"{_W}name")
            words = (name.get(f"{_W}val", "") if name is not None else "").lower().split()
            identity = style.get(f"{_W}styleId", "")
            if words == ["title"]:
                self._levels[identity] = 1
            elif len(words) == 2 and words[0] == "heading" and words[1].isdecimal():
                self._levels[identity] = max(1, min(int(words[1]), _LOWEST))
            if _is_on(style.find(f"{_W}rPr/{_W}vanish")):
                self._hidden.add(identity)

    def blocks(self, root: Any) -> Iterator[str]:
        """HTML of the paragraphs and tables inside an element."""
        for child in root:
            if child.tag in _DELETED or not isinstance(child.tag, str):
                continue
            if child.tag == f"{_W}p":
                yield self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                yield "<table>"
                for row in child.iterchildren(f"{_W}tr"):
                    cells = ("".join(self.blocks(cell)) for cell in row.iterchildren(f"{_W}tc"))
                    yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
                yield "</table>"
            else:  # body, content controls, insertions, notes
                yield from self.blocks(child)

    def _paragraph(self, paragraph: Any) -> str:
        style = _value(paragraph.find(f"{_W}pPr/{_W}pStyle"))
        text = "" if style in self._hidden else "".join(self._inline(paragraph))
        level = self._levels.get(style)
        if level is None:
            outline = _value(paragraph.find(f"{_W}pPr/{_W}outlineLvl"))
            level = int(outline) + 1 if outline in "012345" and outline else None
        if level is not None:
            return f"<h{level}>{text}</h{level}>"
        if paragraph.find(f"{_W}pPr/{_W}numPr") is not None:
            return f"<ul><li>{text}</li></ul>"
        return f"<p>{text}</p>"

    def _inline(self, node: Any) -> Iterator[str]:
        for child in node:
            if child.tag in _DELETED or (child.tag == f"{_W}r" and self._is_hidden(child)):
                continue
            if child.tag == f"{_W}t":
                yield escape(child.text or "")
            elif child.tag == f"{_W}tab":
                yield " "
            elif child.tag in _BREAKS:
                yield "<br>"
            elif isinstance(child.tag, str) and child.tag not in (f"{_W}pPr", f"{_W}rPr"):
                yield from self._inline(child)

    def _is_hidden(self, run: Any) -> bool:
        direct = run.find(f"{_W}rPr/{_W}vanish")
        return _is_on(direct) if direct is not None else _value(run.find(f"{_W}rPr/{_W}rStyle")) in self._hidden


def _value(element: Any) -> str:
    return element.get(f"{_W}val", "") if element is not None else ""


def _is_on(element: Any) -> bool:
    return element is not None and element.get(f"{_W}val", "true") not in _OFF
