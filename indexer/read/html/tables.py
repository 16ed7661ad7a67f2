"""Tables of a page: which are grids of cells, which rows and tables stand for a symbol and open a section."""

from dataclasses import dataclass, field

from indexer.read.html.html_tree import Element
from indexer.read.html.noise import holds
from indexer.read.html.parts import SectionDraft
from indexer.records import COLUMNS

_NOT_A_GRID = frozenset({"table", "pre", *(f"h{level}" for level in range(1, 7))})  # a table around one is layout
_CELLS = frozenset({"td", "th"})
_MOST_ROWS = 6  # of a table that is the heading of what follows it
_LONGEST_HEAD = 500  # characters of the row that names the columns
_FEW = 3  # such tables on a page, or it is only a table


@dataclass(slots=True)
class Row:
    """A table row while it is being filled."""

    anchor: str | None  # the nearest id before it, or the first in it
    is_own: bool = False  # whether that is in it
    is_head: bool = False  # whether it stands where the names of columns do
    cells: list[list[str]] = field(default_factory=list)  # blocks of each
    length: int = 0  # characters
    linked: int = 0  # of these, characters inside links

    def add(self, text: str, length: int, linked: int) -> None:
        """Take a block of the last cell."""
        if not self.cells:
            self.cells.append([])
        self.cells[-1].append(text)
        self.length += length
        self.linked += linked

    def open_cell(self, *, is_head: bool) -> None:
        """Begin a cell; a row of nothing but heads names the columns."""
        self.is_head = is_head and (self.is_head or not self.cells)
        self.cells.append([])

    def text(self) -> str:
        """Return the cells, side by side; the blocks of an only cell are lines."""
        joint = "\n" if len(self.cells) == 1 else " "
        return COLUMNS.join(joint.join(cell) for cell in self.cells).rstrip(" |")

    def name(self) -> str:
        """Return the text of the first cell, on one line."""
        return " ".join(" ".join(self.cells[0]).split()) if self.cells else ""


@dataclass(slots=True)
class Table:
    """An open table."""

    is_grid: bool  # whether rows are written as rows
    home: SectionDraft  # the section it stands in
    titles: bool = False  # whether its first row is the heading of what follows it
    head: str = ""  # its first rows, if they name the columns
    has_rows: bool = False  # whether others were written

    def head_above(self, row: Row, text: str) -> str:
        """Return what names the columns of a row with this text; takes the row for that if it does so itself."""
        if row.is_head and not self.has_rows:
            self.head += f"\n{text}" if self.head else text
            return ""
        self.has_rows = True
        is_short = len(self.head) <= _LONGEST_HEAD
        return self.head if is_short and COLUMNS in self.head else ""


class Tables:
    """Opens the tables of a page."""

    def __init__(self, root: Element) -> None:
        self._root = root
        self._titling: set[int] | None = None

    def open(self, tag: Element, home: SectionDraft) -> Table:
        """Begin a table."""
        return Table(not holds(tag, _NOT_A_GRID), home, titles="id" in tag.attributes and id(tag) in self._headings())

    def _headings(self) -> set[int]:
        """Tables of one column, with an id, of which there are several: each names a symbol, and text follows it."""
        if self._titling is None:
            named = [tag for tag in self._root.elements() if tag.name == "table" and "id" in tag.attributes]
            found = {id(tag) for tag in named if _is_column(tag)}
            self._titling = found if len(found) >= _FEW else set()
        return self._titling


def _is_column(table: Element) -> bool:
    rows = [node for node in table.elements() if node.name == "tr"]
    return 0 < len(rows) <= _MOST_ROWS and all(
        sum(isinstance(node, Element) and node.name in _CELLS for node in row.children) == 1 for row in rows
    )
