"""The walk over a page's elements that gathers its sections.

It keeps its own stack, so that depth costs nothing. Headings open sections; so do definition terms with an id of
their own (a setting in a manual, a function in an API reference), because that is what readers look up and link to.
"""

import re

from indexer.decoding import visible
from indexer.html_noise import classes, holds, is_noise
from indexer.html_parts import Part, join_parts
from indexer.html_tree import Element
from indexer.records import Section

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dir div dl dt fieldset figcaption figure form "
    "header hgroup hr html legend li main menu ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_NOT_A_GRID = frozenset({"table", "pre", *_HEADINGS})  # a table around one of these is layout
_BOXES = frozenset("note tip warning caution important danger info admonition callout".split())
_SHAPING = _BLOCKS | {*_HEADINGS, "a", "br"}  # all others only carry text, and perhaps an id
_BREAK = "\x00"  # stands for <br>
_WORD = re.compile(r"\w")
_GENERATED_ID = re.compile(r"id[-m]?\d[\d.]*")
_DEEPEST = 10  # names in the path above a term
_TERM_LENGTH = 80  # characters of a term shown in a path


def fold(text: str) -> str:
    """One line: white space folded, invisible characters dropped."""
    return " ".join(visible(text).split())


class Walker:
    """Walks one element and gathers what it says."""

    def __init__(self) -> None:
        self.headings: list[str] = []
        self.text_length = 0  # characters
        self.link_length = 0  # of these, characters inside links
        self._parts = [Part((), None)]
        self._line: list[str] = []  # inline text that is not a block yet
        self._tight = False  # whether the next block follows without a blank line
        self._bullet = ""
        self._lists: list[bool] = []  # open lists: whether an item has been written
        self._links = 0  # open links
        self._outline: list[tuple[int, str]] = []  # open headings
        self._heading = False  # inside a heading
        self._term: Element | None = None  # the open <dt>
        self._own_anchor: str | None = None  # id of, or in, the open heading or term
        self._near_anchor: str | None = None  # last id since the last text
        self._near_is_block = False
        self._definitions: list[Part] = []  # sections in which the open <dl>s stand
        self._grids: list[bool] = []  # open tables: whether rows are written as rows
        self._rows: list[list[list[str]]] = []  # open rows: cells: blocks

    def walk(self, root: Element) -> None:
        """Visit everything below `root` in document order."""
        todo: list[Element | str | tuple[Element]] = list(reversed(root.children))
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                self._add(node)
            elif isinstance(node, tuple):
                self._leave(node[0])
            elif is_noise(node):
                continue
            elif node.name == "pre":
                self._preformatted(node)
            else:
                if node.name in _SHAPING:
                    self._enter(node)
                    todo.append((node,))
                else:
                    self._note_anchor(node)
                todo += reversed(node.children)
        self._flush()

    def sections(self) -> tuple[Section, ...]:
        """What was gathered, in order."""
        return join_parts(self._parts)

    def _enter(self, tag: Element) -> None:
        name = tag.name
        if name in _BLOCKS:
            self._flush()
        self._note_anchor(tag)
        if name in _HEADINGS:
            self._flush()
            if _titles_a_box(tag):
                return
            self._heading = True
            self._own_anchor = _anchor(tag)
        elif name == "a":
            self._links += "href" in tag.attributes
        elif name == "br":
            self._line.append(_BREAK)
        elif name == "li":
            self._bullet = "- "
        elif name in _LISTS:
            self._lists.append(bool(self._lists))
        elif name == "dl":
            self._definitions.append(self._parts[-1])
        elif name == "dt" and self._definitions and not self._rows:
            self._term = tag
            self._own_anchor = _anchor(tag)
        elif name == "table":
            self._grids.append(not holds(tag, _NOT_A_GRID))
        elif name == "tr" and self._grids and self._grids[-1]:
            self._rows.append([])
        elif name in ("td", "th") and self._rows:
            self._rows[-1].append([])

    def _leave(self, tag: Element) -> None:
        name = tag.name
        if self._heading and name in _HEADINGS:
            self._open_heading(_HEADINGS[name])
        elif tag is self._term:
            self._open_term(tag)
        elif name in _BLOCKS or name in _HEADINGS:
            self._flush()
        if name == "a":
            self._links -= "href" in tag.attributes
        elif name == "div" and "refnamediv" in classes(tag):  # DocBook: "name — purpose", atop a reference page
            self._parts[-1].leads = True
        elif name == "li":
            self._bullet = ""
        elif name in _LISTS and self._lists:
            self._lists.pop()
        elif name == "dt":
            self._tight = True
        elif name == "dl":
            self._close_definitions()
        elif name == "table":
            self._grids.pop()
            self._tight = False
        elif name == "tr" and self._rows and self._grids and self._grids[-1]:
            self._write_row(self._rows.pop())

    def _add(self, text: str) -> None:
        self._line.append(text)
        length = len(text.strip())
        if not length:
            return
        linked = length if self._links else 0
        self.text_length += length
        self.link_length += linked
        if not self._heading and self._term is None:
            self._near_anchor = None
            self._parts[-1].text_length += length
            self._parts[-1].link_length += linked

    def _preformatted(self, tag: Element) -> None:
        self._flush()
        lines = visible(tag.text()).strip("\n").split("\n")
        text = "\n".join(line.rstrip() for line in lines)
        self.text_length += len(text)
        self._parts[-1].text_length += len(text)
        self._near_anchor = None
        self._write(text)

    def _take_line(self) -> str:
        text = "".join(self._line)
        self._line.clear()
        return fold(text) if _BREAK not in text else "\n".join(filter(None, map(fold, text.split(_BREAK))))

    def _flush(self) -> None:
        if self._heading or self._term is not None:
            self._line.append(" ")
        elif self._line:
            self._write(self._take_line())

    def _write(self, text: str) -> None:
        if self._rows and text:
            if not self._rows[-1]:
                self._rows[-1].append([])
            self._rows[-1][-1].append(text)
            return
        if not _WORD.search(text):
            return
        tight = self._tight
        if self._lists:
            tight, self._lists[-1] = tight or self._lists[-1], True
        part = self._parts[-1]
        part.blocks.append((self._bullet + text, tight and bool(part.blocks)))
        part.defined = True
        self._bullet = ""
        self._tight = False

    def _write_row(self, cells: list[list[str]]) -> None:
        joint = "\n" if len(cells) == 1 else " "
        row = " | ".join(joint.join(cell) for cell in cells).rstrip(" |")
        self._write(row)
        self._tight = "\n" not in row

    def _note_anchor(self, tag: Element) -> None:
        anchor = _anchor(tag, generated=tag.name in _BLOCKS) if tag.attributes else None
        if anchor is None:
            return
        if self._heading or self._term is not None:
            self._own_anchor = self._own_anchor or anchor
            return
        is_block = tag.name in _BLOCKS
        if is_block or self._near_anchor is None or not self._near_is_block:
            self._near_anchor, self._near_is_block = anchor, is_block

    def _open_heading(self, level: int) -> None:
        self._heading = False
        title = self._take_line().replace("\n", " ")
        anchor = self._own_anchor or self._near_anchor
        self._own_anchor = self._near_anchor = None
        if not _WORD.search(title):
            return
        while self._outline and self._outline[-1][0] >= level:
            self._outline.pop()
        self._outline.append((level, title))
        self.headings.append(title)
        self._parts.append(Part(tuple(text for _, text in self._outline), anchor))
        self._tight = False

    def _open_term(self, tag: Element) -> None:
        self._term = None
        anchor, self._own_anchor = self._own_anchor, None
        text = self._take_line()
        part = self._parts[-1]
        another_name = part.list_path is not None and not part.defined
        if anchor and not another_name and _WORD.search(text):
            home = self._definitions[-1]
            name = anchor if "sig" in classes(tag) else text.replace("\n", " ")
            path = (*home.path[:_DEEPEST], name[:_TERM_LENGTH].strip())
            self._parts.append(Part(path, anchor, list_path=home.path))
        self._write(text)
        if self._parts[-1] is not part or another_name:
            self._parts[-1].defined = False
        self._tight = True

    def _close_definitions(self) -> None:
        home = self._definitions.pop()
        if self._parts[-1].list_path is not None and self._parts[-1] is not home:
            self._parts.append(Part(home.path, home.anchor, list_path=home.list_path, resumes=True))
            self._parts[-1].defined = True
        self._tight = False


def _anchor(tag: Element, *, generated: bool = False) -> str | None:
    """Id of an element; one made up by a program (`id-1.9.3`) only if `generated` ones are wanted too."""
    text = (tag.get("id") or (tag.get("name") if tag.name == "a" else "")).strip()
    return text if text and (generated or not _GENERATED_ID.fullmatch(text)) else None


def _titles_a_box(heading: Element) -> bool:
    """Whether a heading only says "Note" or "Warning" above a box, and opens no section."""
    return heading.parent is not None and bool(classes(heading.parent) & _BOXES)
