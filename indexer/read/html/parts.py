"""Lines, table rows, blocks and sections of a page, without what only leads elsewhere.

Left out are lists of links, and short blocks that are all link, say the same again and again, or stand before or after
all text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree
from indexer.read.html.noise import classes, holds
from indexer.read.table_grid import Cell, column_names, find_head, spread_cells
from indexer.records import COLUMNS, Section, SectionBlock
from indexer.text.cleaning import fold

BREAK = "\x00"  # stands for <br>


_SHORT = 200  # characters; a shorter definition stays with its neighbours
_LINK_SHARE = 0.8  # of a short part's text inside links above which it is only a pointer elsewhere
_LABEL = 60  # characters of a block that may be a button or a badge
_OFTEN = 3  # times that a label says the same on one page
_TAIL = 20  # characters of such a link
_LIST_SHARE = 0.5  # of the text of a long list inside links above which it is a list of links
_LISTED = frozenset({"li", "tr", "dt", "dd"})
_ROWS = frozenset({"tr", "dt", "dd"})
_SIGNATURE = re.compile(r"[^\W\d_]|\(\)|[:=*&{}]|->")  # outside the links of a line
_FLOW = frozenset({"p", "li", "dd", "dt", "blockquote", "figcaption", "caption", "tr", "pre", "summary"})


@dataclass(slots=True)
class Block:
    """A paragraph, list item, table row or block of code."""

    text: str
    kind: str  # name of the innermost element that makes a block
    anchor: str | None  # the nearest id before it, or where it begins
    tight: bool = False  # whether no blank line goes before it
    length: int = 0  # characters of text, white space not counted
    linked: int = 0  # of these, characters inside links
    tail: tuple[str, str] | None = None  # text and target of the link that ends it
    head: str | None = None  # of a table row: the row above it that names the columns, or nothing
    bare: str = ""  # text outside its links, if it has any

    def is_linked(self, share: float) -> bool:
        """Return whether more than this share of it leads elsewhere."""
        return self.linked > share * self.length

    @property
    def is_pointer(self) -> bool:
        """Return whether it is only links; a signature has words or signs between those of its types."""
        return self.linked > _LINK_SHARE * self.length and not _SIGNATURE.search(self.bare)


@dataclass(slots=True)
class Line:
    """The text of a line while it is being read."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0  # characters of text
    linked: int = 0  # of these, characters inside links
    bare: list[str] = field(default_factory=list)  # pieces outside links
    anchor: str | None = None  # the nearest id before it
    link_start: int = 0  # place in the pieces
    tail: tuple[str, str] | None = None  # text and target of the link that ends it so far

    def block(self, kind: str) -> Block:
        """Return its text as a block."""
        text = "".join(self.pieces)
        shown = fold(text) if BREAK not in text else "\n".join(filter(None, map(fold, text.split(BREAK))))
        bare = " ".join(self.bare) if self.linked else ""
        return Block(shown, kind, self.anchor, length=self.length, linked=self.linked, tail=self.tail, bare=bare)


@dataclass(slots=True)
class SectionDraft:
    """A section while it is being filled."""

    path: tuple[str, ...]
    anchor: str | None
    list_path: tuple[str, ...] | None = None  # of a term: path of the section its list stands in
    resumes: bool = False  # goes on with the section before a list of terms
    defined: bool = False  # whether a term has had its definition
    leads: bool = False  # says in a line what the page is about, and belongs to what follows
    title: Block | None = None  # its heading, as a line of text
    blocks: list[Block] = field(default_factory=list)

    def section(self) -> Section:
        """Return all blocks as one text, with the ids that stand in it, and what of it is to stay whole."""
        anchor = near = self.anchor or self.blocks[0].anchor
        text: list[str] = []
        marks: list[tuple[int, str]] = []
        wholes: list[SectionBlock] = []
        length = 0
        for block in self.blocks:
            goes_on = block.tight and block.head is not None and bool(wholes) and wholes[-1].end == length
            if text:
                text.append("\n" if block.tight else "\n\n")
                length += len(text[-1])
            if block.anchor is not None and block.anchor != near:
                marks.append((length, block.anchor))
                near = block.anchor
            text.append(block.text)
            if block.kind == "pre" or block.head is not None:
                start = wholes.pop().start if goes_on else length
                wholes.append(SectionBlock(start, length + len(block.text), block.head))
            length += len(block.text)
        return Section(self.path, anchor, "".join(text), tuple(marks), tuple(wholes))


def text_of(parts: Sequence[SectionDraft], *, is_mostly_links: bool = False) -> list[SectionDraft]:
    """Return the parts without words of the interface and long lists of links, unless a short page has only these."""

    linked = (block for part in parts for block in part.blocks if block.linked)
    said = Counter(block.text for block in linked if len(block.text) <= _LABEL)

    def is_label(block: Block) -> bool:
        if len(block.text) > _LABEL or not block.is_pointer:
            return False
        return block.kind not in _FLOW or (said[block.text] >= _OFTEN and block.kind not in _ROWS)

    kept = [[block for block in part.blocks if not is_label(block)] for part in parts]
    _cut_tails([block for blocks in kept for block in blocks])
    _drop_ends(parts, kept)
    if not any(kept) and not is_mostly_links:
        return [part for part in parts if part.blocks]
    longest, share = (0, 0.2) if is_mostly_links else (2_000, _LIST_SHARE)
    for part, blocks in zip(parts, kept, strict=True):
        part.blocks = []
        for is_listed, some in groupby(blocks, key=lambda block: block.kind in _LISTED):
            run = list(some)
            pointers = run if is_mostly_links else [item for item in run if item.is_pointer]
            leading, length = sum(item.linked for item in pointers), sum(item.length for item in run)
            if not is_listed or length <= longest or leading <= share * length:
                part.blocks += run
        if is_mostly_links:
            part.title = None  # a letter of an index
    if is_mostly_links and all(block.is_linked(_LIST_SHARE) for part in parts for block in part.blocks):
        return []
    return _with_headings(parts)


def _cut_tails(blocks: Sequence[Block]) -> None:
    """Cut links off that end blocks, such as "source", which say the same often and lead elsewhere each time."""
    tails = [(block, fold(block.tail[0]), block.tail[1]) for block in blocks if block.tail is not None]
    targets: dict[str, set[str]] = {}
    for _, text, target in tails:
        targets.setdefault(text, set()).add(target)
    for block, text, _ in tails:
        before = block.text.removesuffix(text).rstrip()
        if before and 0 < len(text) <= _TAIL and len(targets[text]) >= _OFTEN:
            block.text = before


def _drop_ends(parts: Sequence[SectionDraft], kept: Sequence[list[Block]]) -> None:
    """Leave out links before the first heading and after all text: where one is, and what comes next."""
    first = next((place for place, part in enumerate(parts) if part.path), 0)
    head: set[str] = set()
    for blocks in kept[:first]:
        links = [block for block in blocks if len(block.text) <= _SHORT and block.is_linked(_LIST_SHARE)]
        head.update(block.text for block in links)
        blocks[:] = [block for block in blocks if block not in links]
    for blocks in reversed(kept):
        while blocks and (
            blocks[-1].text in head or (blocks[-1].kind not in _LISTED | _FLOW and blocks[-1].is_pointer)
        ):
            if len(blocks[-1].text) > _SHORT:
                return
            blocks.pop()
        if blocks:
            return


def _with_headings(parts: Sequence[SectionDraft]) -> list[SectionDraft]:
    """Return the parts with text; a heading without any becomes a line of the part before it."""
    filled: list[SectionDraft] = []
    below: tuple[str, ...] = ()  # path of the part that follows
    first = next((part for part in parts if part.path), None)
    for part in reversed(parts):
        title = part.title
        is_above = len(below) > len(part.path) and below[: len(part.path)] == part.path
        # as of what a script would fill: a heading of the level of the first one, with nothing after it
        ends = first and first is not part and not filled and len(part.path) == len(first.path) == 1 and first.blocks
        if part.blocks:
            filled.append(part)
        elif not (title is None or is_above or title.is_pointer or ends):
            filled.append(SectionDraft(part.path[:-1], part.anchor, title=title, blocks=[title], resumes=True))
        elif not is_above:
            continue
        below = part.path
    return filled[::-1]


def join_parts(parts: Sequence[SectionDraft]) -> tuple[Section, ...]:
    """Make sections of parts, in order; what is too short to stand alone joins its neighbours."""
    filled = [part for part in parts if part.blocks]
    joined: list[SectionDraft] = []
    homes: dict[tuple[str, ...], SectionDraft] = {}
    for part, following in zip_longest(filled, filled[1:]):
        size = sum(len(block.text) for block in part.blocks)
        if part.leads and following is not None and not following.leads:
            following.blocks[:0] = part.blocks
            following.anchor = following.anchor or part.anchor
            continue
        is_short = size < _SHORT
        path = part.list_path if is_short and not part.resumes and part.list_path is not None else part.path
        home = homes.get(path) if part.resumes and is_short and part.title is None else None
        if part.resumes and part.title is not None and joined and joined[-1].path[: len(path)] == path:
            home = joined[-1]  # a heading alone stands behind the text before it
        if home is None and joined and joined[-1].path == path and (part.resumes or path != part.path):
            home = joined[-1]
        if home is None:
            home = SectionDraft(path, part.anchor)
            joined.append(home)
            homes.setdefault(path, home)
        home.blocks += part.blocks
    return tuple(part.section() for part in joined)


_LONGEST_SPAN = 65_534  # rows, as in browsers
_SAMPLE = 30  # rows looked at, to see whether one among others names columns
_DIGITS = re.compile(r"[\s+]*(\d{1,6})")


@dataclass(slots=True)
class _HtmlCell:
    """A cell while it is being filled."""

    tag: Element | None = None
    rowspan: int = 1
    colspan: int = 1
    blocks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """A table row while it is being filled."""

    tag: Element
    anchor: str | None  # the nearest id before it, or the first in it
    is_own: bool = False  # whether that is in it
    group: Element | None = None  # the part of the table around it, beyond which no cell spans
    cells: list[_HtmlCell] = field(default_factory=list)
    length: int = 0  # characters
    linked: int = 0  # of these, characters inside links

    def add(self, text: str, length: int, linked: int) -> None:
        """Take a block of the last cell."""
        if not self.cells:
            self.cells.append(_HtmlCell())
        self.cells[-1].blocks.append(text)
        self.length += length
        self.linked += linked

    def open_cell(self, tag: Element) -> None:
        """Begin a cell."""
        spans = (_span(tag, "rowspan", _LONGEST_SPAN), _span(tag, "colspan", 1)) if tag.attributes else (1, 1)
        self.cells.append(_HtmlCell(tag, *spans))


def table_lines(rows: Sequence[Row]) -> Iterator[tuple[Row, str, str]]:
    """Yield the rows of a table as text, each with the line above it that names the columns, or nothing.

    The blocks of an only cell are lines. Rows that name the columns together are one line.
    """
    grid = _grid(rows)
    if any("(" in texts for texts in grid):  # a signature that is laid out in cells
        for row in rows[1:]:
            rows[0].length, rows[0].linked = rows[0].length + row.length, rows[0].linked + row.linked
        yield rows[0], " ".join(text for texts in grid for text in texts if text), ""
        return
    heads = _heads(rows, grid)
    head, place = "", 0
    while place < len(grid):
        row, texts = rows[place], grid[place]
        end = heads.get(place, place)
        if end == place:
            if row.length:  # what spans an empty row was said in the row above
                filled = [cell for cell in row.cells if cell.blocks]
                is_wide = len(filled) == 1 and filled[0].colspan > 1 and len(set(texts) - {""}) == 1
                is_alone = is_wide or len(filled) == len(texts) == 1
                yield row, "\n".join(filled[0].blocks) if is_alone else _line(texts), head
            place += 1
            continue
        for other in rows[place + 1 : end]:
            row.length, row.linked = row.length + other.length, row.linked + other.linked
        head = _line(column_names(grid[place:end]) if end > place + 1 else texts)
        yield row, head, ""
        head, place = head if COLUMNS in head and len(head) <= 500 else "", end


def _grid(rows: Sequence[Row]) -> list[list[str]]:
    """Return the texts of cells, those that span several places at each of them."""
    if all(cell.rowspan == cell.colspan == 1 for row in rows for cell in row.cells):
        return [[" ".join(cell.blocks) for cell in row.cells] for row in rows]
    cells: list[list[Cell]] = []
    group, left = None, 0
    for row in reversed(rows):
        group, left = row.group, left + 1 if row.group is group else 1
        cells.append([Cell(" ".join(cell.blocks), min(cell.rowspan, left), cell.colspan) for cell in row.cells])
    return spread_cells(reversed(cells))


def _heads(rows: Sequence[Row], grid: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return the ends of the runs of rows that name the columns, by where they begin."""
    found: dict[int, int] = {}
    filled = [sum(map(bool, texts)) > 1 for texts in grid]
    heads = [full and _is_head(row) for full, row in zip(filled, rows, strict=True)]
    begin = 0
    for is_head, run in groupby(heads):
        end = begin + sum(1 for _ in run)
        if is_head and not found:
            is_shown = end < len(grid) and end - begin <= 4
            first, last = find_head(grid[begin : begin + _SAMPLE]) if is_shown else (0, 1)  # units may follow
            found[begin] = begin + last if first == 0 and last > end - begin else end if is_shown else begin + 1
        begin = end
    if not found and True in filled:
        begin, end = find_head(grid, by_numbers=True)
        found[begin] = end
    return found


def _is_head(row: Row) -> bool:
    """Return whether a row has nothing but heads; an empty corner does not count."""
    if row.group is not None and row.group.name == "thead":
        return True
    filled = [cell.tag for cell in row.cells if cell.blocks]
    return bool(filled) and all(tag is not None and tag.name == "th" for tag in filled)


def _line(texts: Sequence[str]) -> str:
    return COLUMNS.join(texts).rstrip(" |")


def _span(tag: Element, name: str, of_zero: int) -> int:
    digits = _DIGITS.match(tag.attributes[name]) if name in tag.attributes else None
    return min(int(digits[1]) or of_zero, _LONGEST_SPAN) if digits else 1


_NAMES_OF_ROLES = {  # of elements with a role in a table
    "table": "table", "grid": "table", "treegrid": "table", "row": "tr", "cell": "td", "gridcell": "td",
    "columnheader": "th", "rowheader": "th",
}  # fmt: skip

_NOT_IN_CELLS = HEADINGS | {"pre", "ul", "ol", "dl", "table"}
_WIDEST = 6  # columns of a grid without rows


def name_grids(tree: HtmlTree) -> None:
    """Make tables of elements that say that they are, and of grids whose cells have classes that come again in turn."""
    for element in tree.elements:
        if element.attributes and "role" in element.attributes:
            element.name = _NAMES_OF_ROLES.get(element.attributes["role"], element.name)
        if element.name == "div" and len(element.children) >= 4:
            _make_rows(element)


def _make_rows(grid: Element) -> None:
    cells = grid.tags
    if (
        len(cells) < 4
        or classes(cells[0]) == classes(cells[1])
        or not all(cell.name == "div" and "class" in cell.attributes for cell in cells)
    ):
        return
    names = [classes(cell) for cell in cells]
    width = next((place for place in range(2, _WIDEST + 1) if _is_width(names, place)), 0)
    is_text = any(isinstance(node, str) and not node.isspace() for node in grid.children)
    if not width or is_text or any(holds(cell, _NOT_IN_CELLS) for cell in cells):
        return
    named = frozenset.intersection(*names[:width]).difference(*names[width:])  # a class of the first row alone
    grid.name, grid.children = "table", []
    for place in range(0, len(cells), width):
        row = Element("tr", {}, grid)
        row.children = [*cells[place : place + width]]
        grid.children.append(row)
        for cell in cells[place : place + width]:
            cell.name = "th" if named and not place else "td"


def _is_width(names: Sequence[frozenset[str]], width: int) -> bool:
    """Return whether cells of these classes have one of their own in each column of so many."""
    if len(names) % width or len(names) < 2 * width:
        return False
    for column in range(width):
        others = (some for place, some in enumerate(names) if place % width != column)
        if not frozenset.intersection(*names[column::width]).difference(*others):
            return False
    return True
