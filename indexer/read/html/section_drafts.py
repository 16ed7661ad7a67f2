"""Drafts of sections, their blocks and table rows.

Lists of links are left out, and short blocks of links that are repeated or stand before or after all text.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest

from indexer.records import Section, SectionBlock
from indexer.text.cleaning import fold

BREAK = "\x00"  # a <br>
_MAX_SHORT_CHARS = 200  # shorter definitions join their neighbours
_MIN_POINTER_SHARE = 0.8
_MAX_LABEL_CHARS = 60  # a button or a badge
_MIN_REPEATS = 3
_MAX_TAIL_CHARS = 20
_LINK_LIST_SHARE = 0.5
_LISTED = frozenset({"li", "tr", "dt", "dd"})
_ROWS = frozenset({"tr", "dt", "dd"})
_SIGNATURE = re.compile(r"[^\W\d_]|\(\)|[:=*&{}]|->")  # signs next to links of types
_FLOW = frozenset({"p", "li", "dd", "dt", "blockquote", "figcaption", "caption", "tr", "pre", "summary"})


@dataclass(slots=True)
class Block:
    """A paragraph, list item, table row or block of code."""

    text: str
    kind: str  # name of the innermost block element
    anchor: str | None  # nearest id before the text
    tight: bool = False  # follows without a blank line
    length: int = 0  # characters, without white space
    linked: int = 0  # characters inside links
    tail: tuple[str, str] | None = None  # text and target of the last link
    head: str | None = None  # row of column names above a table row; empty if there is none
    bare: str = ""  # text outside links

    def is_linked(self, share: float) -> bool:
        """Return whether links have more than this share of the text."""
        return self.linked > share * self.length

    @property
    def is_pointer(self) -> bool:
        """Return whether the block is only links; signatures have words or signs between links."""
        return self.linked > _MIN_POINTER_SHARE * self.length and not _SIGNATURE.search(self.bare)


@dataclass(slots=True)
class Line:
    """The text of a line while it is being read."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0  # characters
    linked: int = 0  # characters inside links
    bare: list[str] = field(default_factory=list)  # pieces outside links
    anchor: str | None = None  # nearest id before the line
    link_start: int = 0  # index of a piece
    tail: tuple[str, str] | None = None  # text and target of the last link

    def block(self, kind: str) -> Block:
        """Return the line as a block."""
        text = "".join(self.pieces)
        shown = fold(text) if BREAK not in text else "\n".join(filter(None, map(fold, text.split(BREAK))))
        bare = " ".join(self.bare) if self.linked else ""
        return Block(shown, kind, self.anchor, length=self.length, linked=self.linked, tail=self.tail, bare=bare)


@dataclass(slots=True)
class SectionDraft:
    """A section while it is being filled."""

    path: tuple[str, ...]
    anchor: str | None
    list_path: tuple[str, ...] | None = None  # path of the section around the list of a term
    resumes: bool = False  # continues the section before a list of terms
    defined: bool = False  # a term with its definition
    leads: bool = False  # a one-line summary, part of the next section
    title: Block | None = None  # its heading
    blocks: list[Block] = field(default_factory=list)

    def section(self) -> Section:
        """Return the section with its text, the ids within it, and the ranges of code and tables."""
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


def drop_pointers(drafts: Sequence[SectionDraft], *, is_mostly_links: bool = False) -> list[SectionDraft]:
    """Drop labels of the interface and long lists of links, unless a short page has only these."""

    linked = (block for draft in drafts for block in draft.blocks if block.linked)
    label_counts = Counter(block.text for block in linked if len(block.text) <= _MAX_LABEL_CHARS)

    def is_label(block: Block) -> bool:
        if len(block.text) > _MAX_LABEL_CHARS or not block.is_pointer:
            return False
        return block.kind not in _FLOW or (label_counts[block.text] >= _MIN_REPEATS and block.kind not in _ROWS)

    block_lists = [[block for block in draft.blocks if not is_label(block)] for draft in drafts]
    _cut_tails([block for blocks in block_lists for block in blocks])
    _drop_ends(drafts, block_lists)
    if not any(block_lists) and not is_mostly_links:
        return [draft for draft in drafts if draft.blocks]
    longest, share = (0, 0.2) if is_mostly_links else (2_000, _LINK_LIST_SHARE)
    for draft, blocks in zip(drafts, block_lists, strict=True):
        draft.blocks = []
        for is_listed, some in groupby(blocks, key=lambda block: block.kind in _LISTED):
            run = list(some)
            pointers = run if is_mostly_links else [item for item in run if item.is_pointer]
            leading, length = sum(item.linked for item in pointers), sum(item.length for item in run)
            if not is_listed or length <= longest or leading <= share * length:
                draft.blocks += run
        if is_mostly_links:
            draft.title = None  # letters of an index
    if is_mostly_links and all(block.is_linked(_LINK_LIST_SHARE) for draft in drafts for block in draft.blocks):
        return []
    return _keep_headings(drafts)


def _cut_tails(blocks: Sequence[Block]) -> None:
    """Cut off links at ends of blocks that repeat a text with other targets, such as "source"."""
    tails = [(block, fold(block.tail[0]), block.tail[1]) for block in blocks if block.tail is not None]
    targets: dict[str, set[str]] = {}
    for _, text, target in tails:
        targets.setdefault(text, set()).add(target)
    for block, text, _ in tails:
        before = block.text.removesuffix(text).rstrip()
        if before and 0 < len(text) <= _MAX_TAIL_CHARS and len(targets[text]) >= _MIN_REPEATS:
            block.text = before


def _drop_ends(drafts: Sequence[SectionDraft], block_lists: Sequence[list[Block]]) -> None:
    """Drop links before the first heading, such as breadcrumbs, and after all text."""
    first = next((place for place, draft in enumerate(drafts) if draft.path), 0)
    head: set[str] = set()
    for blocks in block_lists[:first]:
        links = [block for block in blocks if len(block.text) <= _MAX_SHORT_CHARS and block.is_linked(_LINK_LIST_SHARE)]
        head.update(block.text for block in links)
        blocks[:] = [block for block in blocks if block not in links]
    for blocks in reversed(block_lists):
        while blocks and (
            blocks[-1].text in head or (blocks[-1].kind not in _LISTED | _FLOW and blocks[-1].is_pointer)
        ):
            if len(blocks[-1].text) > _MAX_SHORT_CHARS:
                return
            blocks.pop()
        if blocks:
            return


def _keep_headings(drafts: Sequence[SectionDraft]) -> list[SectionDraft]:
    """Return the drafts with text; a heading without text becomes a line of the draft before it."""
    filled: list[SectionDraft] = []
    below: tuple[str, ...] = ()  # path of the next draft
    first = next((draft for draft in drafts if draft.path), None)
    for draft in reversed(drafts):
        title = draft.title
        is_above = len(below) > len(draft.path) and below[: len(draft.path)] == draft.path
        # a heading for content that a script would fill: of the level of the first heading, and the last of the page
        ends = first and first is not draft and not filled and len(draft.path) == len(first.path) == 1 and first.blocks
        if draft.blocks:
            filled.append(draft)
        elif not (title is None or is_above or title.is_pointer or ends):
            filled.append(SectionDraft(draft.path[:-1], draft.anchor, title=title, blocks=[title], resumes=True))
        elif not is_above:
            continue
        below = draft.path
    return filled[::-1]


def join_drafts(drafts: Sequence[SectionDraft]) -> tuple[Section, ...]:
    """Turn drafts into sections; short ones join their neighbours."""
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
        path = draft.list_path if is_short and not draft.resumes and draft.list_path is not None else draft.path
        home = homes.get(path) if draft.resumes and is_short and draft.title is None else None
        if draft.resumes and draft.title is not None and joined and joined[-1].path[: len(path)] == path:
            home = joined[-1]  # a heading without text follows the text before it
        if home is None and joined and joined[-1].path == path and (draft.resumes or path != draft.path):
            home = joined[-1]
        if home is None:
            home = SectionDraft(path, draft.anchor)
            joined.append(home)
            homes.setdefault(path, home)
        home.blocks += draft.blocks
    return tuple(draft.section() for draft in joined)
