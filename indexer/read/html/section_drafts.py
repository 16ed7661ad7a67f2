"""Collect blocks of text in drafts of sections, and convert the drafts to sections.

Long lists of links are dropped. Short links are dropped if they are repeated, or at the beginning or end of a page.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest

from indexer.read.html.noise import CALL
from indexer.records import COLUMNS, Section, SectionBlock
from indexer.text.cleaning import fold

BREAK = "\x00"  # placeholder for <br>
_MAX_SHORT_CHARS = 200
_MIN_POINTER_SHARE = 0.8
_MAX_LABEL_CHARS = 60
_MIN_REPEATS = 3
_LINK_LIST_SHARE = 0.5
_LISTED = frozenset({"li", "tr", "dt", "dd"})
_ROWS = frozenset({"tr", "dt", "dd"})
_SIGNATURE = re.compile(r"[^\W\d_]|\(\)|[:=*&{}]|->")
_FLOW = frozenset({"p", "li", "dd", "dt", "blockquote", "figcaption", "caption", "tr", "pre", "summary"})


@dataclass(slots=True)
class Block:
    """A paragraph, list item, table row or block of code. `anchor` is the last id before its text.

    `kind` is the name of the innermost block element. `head` is the line of column names above a table row, or None.
    `tight` means that no blank line separates the block from the previous block.
    """

    text: str
    kind: str
    anchor: str | None
    length: int = 0
    link_length: int = 0
    unlinked_text: str = ""
    head: str | None = None
    tight: bool = False

    def is_linked(self, share: float) -> bool:
        """Return whether more than `share` of the text is in links."""
        return self.link_length > share * self.length

    @property
    def is_pointer(self) -> bool:
        """Return whether over 80 % of the text is in links, and the rest has neither letters nor operators of code."""
        return self.is_linked(_MIN_POINTER_SHARE) and not _SIGNATURE.search(self.unlinked_text)

    @property
    def is_loose_link(self) -> bool:
        """Return whether the block is a link outside paragraphs, lists and tables, and not a function call or a URL."""
        return self.kind not in _FLOW and self.is_pointer and not (CALL.search(self.text) or "://" in self.text)


@dataclass(slots=True)
class Line:
    """A line of text that is being read. `length` and `link_length` are characters in total and in links."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0
    link_length: int = 0
    unlinked_pieces: list[str] = field(default_factory=list)
    anchor: str | None = None
    link_start: int = 0  # index in `pieces` of the last link's first text

    def block(self, kind: str) -> Block:
        """Return the line as a block of this kind, with normalised white space."""
        text = "\n".join(filter(None, map(fold, "".join(self.pieces).split(BREAK))))
        unlinked = " ".join(self.unlinked_pieces) if self.link_length else ""
        return Block(text, kind, self.anchor, self.length, self.link_length, unlinked)


@dataclass(slots=True)
class SectionDraft:
    """A section that is being read.

    Attributes:
        list_path: for an entry of a list or table, the path of the section that contains this list or table.
        resumes: whether the draft is the rest of a section, after a list or table whose entries became sections.
        is_defined: whether text follows the term that begins an entry.
        leads: whether the draft is a summary, which is prepended to the next section.
    """

    path: tuple[str, ...]
    anchor: str | None
    list_path: tuple[str, ...] | None = None
    resumes: bool = False
    is_defined: bool = False
    leads: bool = False
    heading: Block | None = None
    blocks: list[Block] = field(default_factory=list)

    def section(self) -> Section:
        """Return the finished section: its text, the offsets of ids, and the ranges of code and tables."""
        anchor = last_anchor = self.anchor or self.blocks[0].anchor
        text = ""
        marks: list[tuple[int, str]] = []
        ranges: list[SectionBlock] = []
        for block in self.blocks:
            continues_table = block.tight and block.head is not None and bool(ranges) and ranges[-1].end == len(text)
            if text:
                text += "\n" if block.tight else "\n\n"
            if block.anchor is not None and block.anchor != last_anchor:
                marks.append((len(text), block.anchor))
                last_anchor = block.anchor
            if block.kind == "pre" or block.head is not None:
                start = ranges.pop().start if continues_table else len(text)
                ranges.append(SectionBlock(start, len(text) + len(block.text), block.head))
            text += block.text
        return Section(self.path, anchor, text, tuple(marks), tuple(ranges))


def drop_pointers(drafts: Sequence[SectionDraft], *, is_mostly_links: bool) -> list[SectionDraft]:
    """Drop navigation labels and long lists of links. If a short page has no other text, keep the labels."""
    linked_blocks = (block for draft in drafts for block in draft.blocks if block.link_length)
    label_counts = Counter(block.text for block in linked_blocks if len(block.text) <= _MAX_LABEL_CHARS)

    def is_label(block: Block) -> bool:
        if len(block.text) > _MAX_LABEL_CHARS or not block.is_pointer:
            return False
        return block.is_loose_link or (label_counts[block.text] >= _MIN_REPEATS and block.kind not in _ROWS)

    block_lists = [[block for block in draft.blocks if not is_label(block)] for draft in drafts]
    _drop_ends(drafts, block_lists)
    if not any(block_lists) and not is_mostly_links:
        has_outline = sum(draft.heading is not None for draft in drafts) > 1
        return _keep_headings(drafts) if has_outline else [draft for draft in drafts if draft.blocks]
    max_length, max_share = (0, 0.2) if is_mostly_links else (2_000, _LINK_LIST_SHARE)
    for draft, blocks in zip(drafts, block_lists, strict=True):
        draft.blocks = []
        for is_listed, group in groupby(blocks, key=lambda block: block.kind in _LISTED):
            run = list(group)
            pointers = [item for item in run if is_mostly_links or (item.is_pointer and COLUMNS not in item.text)]
            link_length, length = sum(item.link_length for item in pointers), sum(item.length for item in run)
            if not is_listed or length <= max_length or link_length <= max_share * length:
                draft.blocks += run
        if is_mostly_links:
            draft.heading = None  # a page that is mostly links is an index, and its headings are single letters
    if is_mostly_links and all(block.is_linked(_LINK_LIST_SHARE) for draft in drafts for block in draft.blocks):
        return []
    return _keep_headings(drafts)


def _drop_ends(drafts: Sequence[SectionDraft], block_lists: Sequence[list[Block]]) -> None:
    """Drop short links before the first heading, such as breadcrumbs, and short links after all other text."""
    first = next((index for index, draft in enumerate(drafts) if draft.path), 0)
    texts_at_start: set[str] = set()
    for blocks in block_lists[:first]:
        links = [block for block in blocks if len(block.text) <= _MAX_SHORT_CHARS and block.is_linked(_LINK_LIST_SHARE)]
        texts_at_start.update(block.text for block in links)
        blocks[:] = [block for block in blocks if block not in links]
    for blocks in reversed(block_lists):
        while blocks:
            last = blocks[-1]
            is_link = last.text in texts_at_start or (last.kind not in _LISTED and last.is_loose_link)
            if not is_link or len(last.text) > _MAX_SHORT_CHARS:
                return
            blocks.pop()


def _keep_headings(drafts: Sequence[SectionDraft]) -> list[SectionDraft]:
    """Return the drafts with text. A heading without text below it becomes text of the section around it."""
    filled: list[SectionDraft] = []
    next_path: tuple[str, ...] = ()
    first = next((draft for draft in drafts if draft.path), None)
    for draft in reversed(drafts):
        heading = draft.heading
        is_above = len(next_path) > len(draft.path) and next_path[: len(draft.path)] == draft.path
        # drop a top-level heading without text at the end, because scripts would add its text, such as comments
        ends = first and first is not draft and not filled and len(draft.path) == len(first.path) == 1 and first.blocks
        if draft.blocks:
            filled.append(draft)
        elif not (heading is None or is_above or heading.is_pointer or ends):
            filled.append(SectionDraft(draft.path[:-1], draft.anchor, heading=heading, blocks=[heading], resumes=True))
        elif not is_above:
            continue
        elif filled[-1].resumes and filled[-1].path == draft.path:
            filled[-1].anchor = draft.anchor or filled[-1].anchor  # this heading is now the beginning of the section
        next_path = draft.path
    return filled[::-1]


def join_drafts(drafts: Sequence[SectionDraft]) -> tuple[Section, ...]:
    """Convert drafts to sections. Join short list entries, and short text below their list, to the outer section."""
    filled = [draft for draft in drafts if draft.blocks]
    joined: list[SectionDraft] = []
    homes: dict[tuple[str, ...], SectionDraft] = {}
    for draft, following in zip_longest(filled, filled[1:]):
        size = sum(len(block.text) for block in draft.blocks)
        if draft.leads and following is not None and not following.leads:
            following.blocks[:0] = draft.blocks
            following.anchor = following.anchor or draft.anchor
            continue
        is_short = size < _MAX_SHORT_CHARS
        # an entry stays a section if its text, such as `get()`, does not begin with its name, such as `dict.get`
        has_name = draft.blocks[0].text.replace("\n", " ").startswith(draft.path[-1:])
        is_item = is_short and not draft.resumes and has_name
        path = draft.list_path if is_item and draft.list_path is not None else draft.path
        introduces = following is not None and following.list_path == path  # whether another list follows the text
        home = homes.get(path) if draft.resumes and is_short and draft.heading is None and not introduces else None
        if draft.resumes and draft.heading is not None and joined and joined[-1].path[: len(path)] == path:
            home = joined[-1]  # append a heading without text to the previous section
        if home is None and joined and joined[-1].path == path and (draft.resumes or path != draft.path):
            home = joined[-1]
        if home is None:
            home = SectionDraft(path, draft.anchor)
            joined.append(home)
            homes.setdefault(path, home)
        home.blocks += draft.blocks
    return tuple(draft.section() for draft in joined)
