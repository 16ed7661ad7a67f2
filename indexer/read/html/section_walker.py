"""Traverse the elements of a page, and split its text into sections.

A heading begins a section. A term of a definition list also begins a section, because people look up and link to terms
such as settings or functions. The traversal uses a stack instead of recursion, so the depth of nesting has no limit.
"""

import re
from collections.abc import Sequence

from indexer.read.html.code_and_formulas import MAY_BE_CODE, alternative_text, code_of, is_code
from indexer.read.html.html_tables import Row, table_lines
from indexer.read.html.html_tree import HEADINGS, Element
from indexer.read.html.noise import HEADING_CONTAINERS, LETTER, MAY_BE_NOISE, content_of, is_noise, is_permalink
from indexer.read.html.section_drafts import BREAK, Block, Line, SectionDraft, drop_pointers, join_drafts
from indexer.records import Section
from indexer.text.cleaning import fold

_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dir div dl dt fieldset figcaption figure form "
    "header hgroup hr html legend li main menu ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_PLAIN_BLOCKS = _BLOCKS - _LISTS - {"li", "dl", "dt", "table", "tr", "td", "th"}
_STRUCTURAL = _BLOCKS | HEADINGS | {"a", "br", "img"}
_NOTE_BOX_CLASSES = frozenset("note tip warning caution important danger info admonition callout".split())
_DEFINITIONS = frozenset({"dd", "p", "div"})
_IN_DATA_TABLES = frozenset({"th", "caption", "thead"})
_LAYOUT_ROLES = frozenset({"presentation", "none"})
_WORD = re.compile(r"\w")
_MAX_HEADINGS_ABOVE_TERM = 10
_MAX_TERM_CHARS = 80
_MAX_DEFINITION_CHARS = 200
_PUNCTUATION_END = re.compile(r"[^\w)\]}>\"'”»]\Z")


class Walker:
    """A traversal of an element that splits its text into sections."""

    def __init__(self, root: Element) -> None:
        """Visit all descendants of `root` in document order."""
        self.headings: list[str] = []
        self.text_length = 0
        self.link_length = 0
        self.link_texts: dict[str, str] = {}  # target → text of the first link to it
        self._drafts = [SectionDraft((), None)]
        self._line = Line()
        self._open_blocks = ["div"]
        self._is_next_tight = False
        self._bullet = ""
        self._tight_lists: list[bool] = []  # one per open list: whether its next item follows without a blank line
        self._open_links = 0
        self._leads_elsewhere = False
        self._open_headings: list[tuple[int, str]] = []
        self._in_heading = False
        self._current_term: Element | None = None
        self._term_code = ""
        self._undefined_term: Block | None = None  # the last <dt>, until its <dd> is read
        self._title_anchor: str | None = None
        self._anchor_since_text: str | None = None
        self._is_anchor_of_block = False
        self._last_anchor: str | None = None
        self._sections_around_lists: list[SectionDraft] = []
        # one per open table: (its section, its rows or None for a layout table, Python ids of rows that are headings)
        self._tables: list[tuple[SectionDraft, list[Row] | None, set[int]]] = []
        self._open_rows: list[Row] = []
        self._note_anchor(root)
        todo: list[Element | str | tuple[Element]] = list(reversed(root.children))
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                if self._line.pieces or not node.isspace():
                    self._add(node)
            elif isinstance(node, tuple):
                self._leave(node[0])
            elif (node.attributes or node.name in MAY_BE_NOISE) and is_noise(node):
                if node.name == "a" and is_permalink(node):
                    self._note_anchor(node)
            elif node.name in MAY_BE_CODE and is_code(node):
                self._preformatted(node)
            else:
                if node.name in _STRUCTURAL:
                    self._enter(node)
                    todo.append((node,))
                elif "id" in node.attributes:
                    self._note_anchor(node)
                children = node.children
                if node.name in HEADING_CONTAINERS and len(children) > 1:
                    children = content_of(node)
                todo += reversed(children)
        self._flush()

    def sections(self) -> tuple[Section, ...]:
        """Return the sections in document order. Call this only once, because it modifies the drafts."""
        return join_drafts(drop_pointers(self._drafts, is_mostly_links=self.is_mostly_links))

    @property
    def is_mostly_links(self) -> bool:
        """Return whether a text of at least 5,000 characters consists mostly of links to other pages."""
        return self.text_length >= 5_000 and self.link_length > 0.5 * self.text_length

    def _enter(self, tag: Element) -> None:
        name = tag.name
        if name in _BLOCKS:
            if self._line.pieces:
                self._flush()
            self._open_blocks.append(name)
        if name == "a" or ("id" in tag.attributes and not _has_only_noise(tag)):
            self._note_anchor(tag)
        if name in _PLAIN_BLOCKS:
            return
        if name in HEADINGS:
            self._flush()
            parent = tag.parent
            if parent is None or not parent.classes & _NOTE_BOX_CLASSES:  # the title of a note begins no section
                self._in_heading = True
                around = parent.anchor if parent is not None and parent.name not in _BLOCKS else None
                self._title_anchor = tag.anchor or around
        elif name == "a":
            if "href" in tag.attributes:
                self._open_links += 1
                self._leads_elsewhere = not tag.attributes["href"].startswith("#")
                self._line.link_start = len(self._line.pieces)
        elif name == "br":
            self._line.pieces.append(BREAK)
        elif name == "img":
            links, self._open_links = self._open_links, 0  # the alternative text does not count as text of a link
            self._add(alternative_text(tag))
            self._open_links = links
        elif name == "li":
            self._bullet = "- "
        elif name in _LISTS:
            self._tight_lists.append(bool(self._tight_lists))
        elif name == "dl":
            self._sections_around_lists.append(self._drafts[-1])
        elif name == "dt" and self._sections_around_lists and not self._open_rows:
            self._current_term = tag
            self._title_anchor = tag.anchor
        elif name == "table":
            self._tables.append((self._drafts[-1], *_rows_of(tag)))
        elif name == "tr" and self._tables and (rows := self._tables[-1][1]) is not None:
            if id(tag) in self._tables[-1][2]:
                self._write_rows(rows, self._tables[-1][0])
                rows.clear()
                return
            self._open_rows.append(Row(tag, self._last_anchor, tag.anchor is not None, tag.parent))
        elif name in ("td", "th") and self._open_rows:
            self._open_rows[-1].open_cell(tag)

    def _leave(self, tag: Element) -> None:
        name = tag.name
        if self._in_heading and name in HEADINGS:
            self._end_heading(int(name[1]))
        elif tag is self._current_term:
            self._end_term(tag)
        elif self._line.pieces and (name in _BLOCKS or name in HEADINGS):
            self._flush()
        if name in _BLOCKS:
            self._open_blocks.pop()
            if name in _PLAIN_BLOCKS and name != "div":
                return
        if name == "a":
            if "href" in tag.attributes:
                self._open_links -= 1
                self.link_texts.setdefault(tag.attributes["href"], "".join(self._line.pieces[self._line.link_start :]))
        elif name == "div" and "refnamediv" in tag.classes:  # DocBook's summary of the next section
            self._drafts[-1].leads = True
        elif name == "li":
            self._bullet = ""
        elif name in _LISTS and self._tight_lists:
            self._tight_lists.pop()
        elif name == "dt":
            self._is_next_tight = True
        elif name == "dl":
            self._resume(self._sections_around_lists.pop())
        elif name == "table":
            home, rows, _ = self._tables.pop()
            self._write_rows(rows or (), home)
            self._resume(home)
        elif name == "tr" and self._open_rows and self._open_rows[-1].tag is tag:
            row, rows = self._open_rows.pop(), self._tables[-1][1]
            if rows is not None:
                rows.append(row)

    def _write_rows(self, rows: Sequence[Row], home: SectionDraft) -> None:
        """Add the rows of a table in the section `home` to the drafts. A row with an id begins a subsection."""
        for row, text, head in table_lines(rows):
            if row.has_inner_anchor and not self._open_rows and row.cells:
                first = fold(" ".join(row.cells[0].blocks))[:_MAX_TERM_CHARS].strip()
                if _WORD.search(first):
                    path = (*home.path[:_MAX_HEADINGS_ABOVE_TERM], first)
                    self._drafts.append(SectionDraft(path, row.anchor, list_path=home.path))
            self._write(Block(text, "tr", row.anchor, length=row.length, link_length=row.link_length, head=head))
            self._is_next_tight = "\n" not in text

    def _add(self, text: str) -> None:
        line = self._line
        line.pieces.append(text)
        length = len(text.strip())
        if not length:
            return
        if not line.length:
            line.anchor = self._last_anchor
        link_length = length if self._open_links else 0
        if not link_length:
            line.unlinked_pieces.append(text)
        self.text_length += length
        self.link_length += link_length * self._leads_elsewhere
        line.length += length
        line.link_length += link_length
        if not self._in_heading and self._current_term is None:
            self._anchor_since_text = None

    def _preformatted(self, tag: Element) -> None:
        if self._in_heading or self._current_term is not None:
            self._note_anchor(tag)
            if self._current_term is not None and not self._line.length:
                self._term_code = code_of(tag)
            self._add(f" {tag.text()} ")
            return
        self._flush()
        self._note_anchor(next((node for node in (tag, *tag.elements()) if node.anchor is not None), tag))
        if text := code_of(tag):
            self.text_length += len(text)
            self._anchor_since_text = None
            self._bullet = ""
            self._write(Block(text, "pre", self._last_anchor, length=len(text)))

    def _flush(self) -> None:
        line = self._line
        if self._in_heading or self._current_term is not None:
            line.pieces.append(" ")
        elif line.length:
            self._write(self._take_line(self._open_blocks[-1]))
        elif line.pieces:
            line.pieces.clear()

    def _take_line(self, kind: str) -> Block:
        """Return the current line as a block, and begin an empty line."""
        block, self._line = self._line.block(kind), Line()
        return block

    def _write(self, block: Block) -> None:
        if self._open_rows and block.text:
            self._open_rows[-1].add(block.text, block.length, block.link_length)
            return
        if not _WORD.search(block.text) and block.kind != "pre":
            return
        draft = self._drafts[-1]
        term, self._undefined_term = self._undefined_term, None
        if term is not None and block.kind in _DEFINITIONS and len(block.text) <= _MAX_DEFINITION_CHARS:
            term.text = f"{term.text}{' ' if _PUNCTUATION_END.search(term.text) else ': '}{block.text}"
            term.length, term.link_length = term.length + block.length, term.link_length + block.link_length
            term.kind = "dd"
            term.unlinked_text = f"{term.unlinked_text} {block.unlinked_text}".strip()
            draft.is_defined, self._is_next_tight = True, False
            if not draft.blocks or draft.blocks[-1] is not term:  # a term without letters was not added
                draft.blocks.append(term)
            return
        block.tight = self._is_next_tight
        if self._tight_lists:
            block.tight, self._tight_lists[-1] = block.tight or self._tight_lists[-1], True
            block.kind = "li" if block.kind in ("p", "div") else block.kind
        block.tight = block.tight and bool(draft.blocks)
        block.text = self._bullet + block.text
        draft.blocks.append(block)
        draft.is_defined = True
        self._bullet = ""
        self._is_next_tight = False

    def _note_anchor(self, tag: Element) -> None:
        anchor = tag.anchor
        if anchor is None:
            return
        self._last_anchor = anchor
        if self._open_rows and not self._open_rows[-1].length:
            self._open_rows[-1].anchor, self._open_rows[-1].has_inner_anchor = anchor, True
        is_block = tag.name in _BLOCKS
        if self._in_heading or self._current_term is not None:
            self._title_anchor = self._title_anchor or anchor
        elif is_block or self._anchor_since_text is None or not self._is_anchor_of_block:
            self._anchor_since_text, self._is_anchor_of_block = anchor, is_block

    def _end_heading(self, level: int) -> None:
        self._in_heading = False
        line = self._take_line("heading")
        title = line.text = line.text.replace("\n", " ")
        anchor = self._title_anchor or self._anchor_since_text or self._last_anchor
        self._title_anchor = self._anchor_since_text = None
        if not _WORD.search(title):
            return
        self._last_anchor = line.anchor = anchor
        while self._open_headings and self._open_headings[-1][0] >= level:
            self._open_headings.pop()
        self._open_headings.append((level, title))
        self.headings.append(title)
        self._drafts.append(SectionDraft(tuple(text for _, text in self._open_headings), anchor, heading=line))
        self._is_next_tight = False

    def _end_term(self, tag: Element) -> None:
        self._current_term = None
        anchor, self._title_anchor = self._title_anchor, None
        line, draft = self._take_line("dt"), self._drafts[-1]
        another_name = draft.list_path is not None and not draft.is_defined
        self._last_anchor = anchor or self._last_anchor
        if not another_name and (_WORD if anchor else LETTER).search(line.text):
            home = self._sections_around_lists[-1]
            name = anchor if anchor and "sig" in tag.classes else line.text.replace("\n", " ")
            path = (*home.path[:_MAX_HEADINGS_ABOVE_TERM], name[:_MAX_TERM_CHARS].strip())
            self._drafts.append(SectionDraft(path, self._last_anchor, list_path=home.path))
        line.anchor = self._last_anchor
        code, self._term_code = self._term_code, ""
        if code and fold(code) == fold(line.text):
            line.text, line.kind = code, "pre"
        self._write(line)
        if anchor is None and not another_name and len(line.text) <= _MAX_TERM_CHARS and "\n" not in line.text:
            self._undefined_term = line
        if self._drafts[-1] is not draft or another_name:
            self._drafts[-1].is_defined = False
        self._is_next_tight = True

    def _resume(self, home: SectionDraft) -> None:
        """Begin a draft for the rest of the section `home`, if entries of its last list or table became sections."""
        if self._drafts[-1].list_path is not None and self._drafts[-1] is not home:
            self._drafts.append(SectionDraft(home.path, None, list_path=home.list_path, resumes=True, is_defined=True))
        self._is_next_tight = False


def _rows_of(table: Element) -> tuple[list[Row] | None, set[int]]:
    """Return a new list for rows, or None if the table is only for layout, and the Python ids of rows with headings."""
    headings: set[int] = set()
    if table.get("role") in _LAYOUT_ROLES:
        return None, headings
    has_names = has_code = False
    rows = 0
    for node in table.first_elements():
        name = node.name
        if name in HEADINGS:
            row = next((parent for parent in node.parents() if parent.name == "tr"), table)
            if len(row.tags) > 1:
                return None, headings
            headings.add(id(row))
        elif name == "pre":
            has_code = True
            if "\n" in node.text().strip():
                return None, headings
        elif name == "table" and not has_names:
            return None, headings
        has_names |= name in _IN_DATA_TABLES
        rows += name == "tr"
    return (None if has_code and rows < 2 else []), headings


def _has_only_noise(tag: Element) -> bool:
    """Return whether an element contains only navigation or controls, so that its id does not apply to later text."""
    contents = (node for node in tag.children if not isinstance(node, str) or not node.isspace())
    return bool(tag.tags) and all(isinstance(node, Element) and is_noise(node) for node in contents)
