"""Blocks of all pages to sections: under headings, or pages where there are none, with the anchors of all pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from indexer.read.pdf.headings import Place
from indexer.read.pdf.hyphens import HYPHENS, Hyphens
from indexer.read.pdf.paragraphs import Block
from indexer.records import Section, Whole

_LONG = 10_000  # characters after which the next page begins another section of the same heading


@dataclass(slots=True)
class _Draft:
    path: tuple[str, ...]
    page: int
    parts: list[str] = field(default_factory=list)
    length: int = 0
    marks: list[tuple[int, str]] = field(default_factory=list)
    wholes: list[Whole] = field(default_factory=list)
    last: Block | None = None


def sections_of(
    pages: Sequence[Sequence[Block]], paths: Mapping[Place, tuple[str, ...]], hyphens: Hyphens
) -> tuple[Section, ...]:
    """Return the sections of a document whose headings have these paths; without any, one for each page."""
    drafts = list(_drafts(pages, paths, hyphens))
    for draft, after in zip_longest(drafts, drafts[1:]):
        is_above = after is not None and after.path[: len(draft.path)] == draft.path
        if not draft.length and not is_above and not _is_page(draft):  # a heading with nothing below it is a text
            draft.parts.append(draft.path[-1])
    return tuple(section for draft in drafts if (section := _section(draft)).text)


def _is_page(draft: _Draft) -> bool:
    return draft.path == (f"Page {draft.page + 1}",)


def _drafts(
    pages: Sequence[Sequence[Block]], paths: Mapping[Place, tuple[str, ...]], hyphens: Hyphens
) -> Iterator[_Draft]:
    draft: _Draft | None = None
    for page, blocks in enumerate(pages):
        if draft is None or not paths or draft.length > _LONG or _is_page(draft):
            if draft:
                yield draft
            draft = _Draft(draft.path if draft and paths and not _is_page(draft) else (f"Page {page + 1}",), page)
        is_first = True
        for place, block in enumerate(blocks):
            path = paths.get((page, place))
            if path is not None:
                yield draft
                draft = _Draft(path, page)
                is_first = False
                continue
            _add(draft, block, hyphens, page if is_first else None)
            is_first = False
    if draft:
        yield draft


def _add(draft: _Draft, block: Block, hyphens: Hyphens, page: int | None) -> None:
    """Put a block at the end of a section; `page` is given where it is the first of its page."""
    last, text = draft.last, block.text
    gap = ""
    if last:
        goes_on = last.goes_on and last.kind == block.kind == "text" and text[:1].islower() and last.size == block.size
        gap = " " if goes_on else "\n" if last.kind == block.kind == "item" else "\n\n"
        if goes_on and draft.parts[-1].endswith(HYPHENS):
            gap = ""
            draft.length -= len(draft.parts[-1])
            draft.parts[-1] = hyphens.goes_on(draft.parts[-1], text)
            draft.length += len(draft.parts[-1])
    draft.parts.append(gap)
    draft.length += len(gap)
    if page is not None and page != draft.page:
        draft.marks.append((draft.length, f"page={page + 1}"))
    if block.kind in ("table", "code"):
        head = block.head if block.kind == "table" else None
        draft.wholes.append(Whole(draft.length, draft.length + len(text), head))
    draft.parts.append(text)
    draft.length += len(text)
    draft.last = block


def _section(draft: _Draft) -> Section:
    return Section(draft.path, f"page={draft.page + 1}", "".join(draft.parts), tuple(draft.marks), tuple(draft.wholes))
