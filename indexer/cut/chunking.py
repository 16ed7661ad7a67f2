"""Documents to passages, counted in the model's own tokens."""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.text_embedder import Embedder
from indexer.config import ChunkConfig
from indexer.cut.cuts import Piece, cut
from indexer.cut.token_cache import TokenCache
from indexer.errors import ConfigError
from indexer.network.urls import with_anchor
from indexer.records import COLUMNS, SEPARATOR, Chunk, Document, Section, TextBlock, Whole, anchor_at
from indexer.text.cleaning import without_joiners

_CONTEXT_SHARE = 4  # heading context takes at most this part of the model's length
MOST_CHUNKS = 10_000  # of one document: a book has 5,000, a log as many as it has lines
_LONGEST_SECTION = 100_000  # characters cut at a time, so that memory does not grow with what one document says
_MOST_NAMES = 8  # headings at either end of a path that become context
_LEAST = 16  # tokens of text for which the model must have room
_NO_IDS = np.empty(0, np.int32)
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"^(?:Chapter \d+|Appendix [A-Z]|Part [IVX]+|\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)\.\s+")


class _Passage(NamedTuple):
    start: int  # in the text of its section
    text: str
    embedded_text: str
    token_ids: npt.NDArray[np.int32]


class Chunker:
    """Cuts documents into chunks that fit the model; keeps no state between documents."""

    def __init__(self, embedder: Embedder, config: ChunkConfig) -> None:
        """Raise ConfigError if the model cannot read even a short passage."""
        self._embedder = embedder
        self._config = config
        self._cache = TokenCache(embedder.tokenizer)
        self._room = embedder.max_length - embedder.tokenizer.count([""], "document")[0]
        if self._room < 2 * _LEAST:
            raise ConfigError(f"the model reads only {embedder.max_length} tokens, too few to index passages")
        self._least_room = self._room - self._room // _CONTEXT_SHARE  # of text, with the longest context

    def split(self, document: Document) -> list[Chunk]:
        """Return the chunks of one document, in reading order; none is longer than the model reads.

        They are at most `MOST_CHUNKS` and one more, where there would be others.
        """
        self._cache = TokenCache(self._embedder.tokenizer)
        sections = [part for section in document.sections for part in _parts(section)]
        self._cache.load(text for section in sections for text in (section.text, *section.path[-1:]))
        joined = join_short(sections, min(self._config.tokens, self._least_room), self._cache.count)
        repeats: Counter[str] = Counter()
        chunks: list[Chunk] = []
        for section, (start, text, embedded, ids) in islice(self._passages(document.title, joined), MOST_CHUNKS + 1):
            known_by = "\x00".join((document.url, text, str(repeats[text])))
            repeats[text] += 1
            chunks.append(
                Chunk(
                    id=_hash(known_by)[:32],
                    url=with_anchor(document.url, anchor_at(section, start)),
                    document_url=document.url,
                    title=document.title,
                    section=SEPARATOR.join(section.path),
                    text=text,
                    embedded_text=embedded,
                    content_hash=_hash(embedded),
                    tokens=len(ids),
                    position=len(chunks),
                    blocks=_blocks(section, start, text),
                    token_ids=ids if len(ids) <= self._embedder.max_length else None,
                )
            )
        return chunks

    def _passages(self, title: str, sections: Iterable[Section]) -> Iterator[tuple[Section, _Passage]]:
        """Yield the passages of sections that have a letter or digit."""
        for section in sections:
            for passage in self._split_section(title, section):
                if _WORD.search(passage.text):
                    yield section, passage
            if len(section.text) > _LONGEST_SECTION // 2:
                self._cache.clear()  # its paragraphs, of which there may be any number

    def _split_section(self, title: str, section: Section) -> list[_Passage]:
        context = later = self._context(title, section)
        length = self._cache.count(section.text)
        budget = min(self._config.tokens, self._room - self._cache.count(context))
        if length > budget:
            later = self._context(title, section, begins=False)
            budget = min(budget, self._room - self._cache.count(later))
        while True:
            pieces = [Piece(0, len(section.text))]
            if length > budget:
                pieces = cut(section.text, budget, self._cache.tokens, section.wholes)
            passages = self._tokenized(section.text, pieces, [context, *[later] * (len(pieces) - 1)])
            if (
                budget <= _LEAST
                or max((len(passage.token_ids) for passage in passages), default=0) <= self._embedder.max_length
            ):
                return passages
            budget = max(_LEAST, budget * 3 // 4)  # tokens of the parts did not add up to those of the whole

    def _tokenized(self, text: str, pieces: Sequence[Piece], contexts: Sequence[str]) -> list[_Passage]:
        """Return the passages of pieces; their tokens are those of the text, unless a cut is within a word."""
        tokenizer, tokens = self._embedder.tokenizer, self._cache.tokens(text)
        passages: list[_Passage] = []
        retokenized: dict[int, str] = {}
        for number, ((start, end, head), context) in enumerate(zip(pieces, contexts, strict=False)):
            shown = f"{head}\n{text[start:end]}" if head else text[start:end]
            embedded = f"{context}\n\n{shown}" if context else shown
            visible = without_joiners(embedded)
            ids = _NO_IDS
            if tokenizer.splits_at_space and visible == embedded and _is_between_words(text, start, end):
                parts = (self._cache.tokens(context), self._cache.tokens(head), tokens.part(start, end))
                ids = tokenizer.join_document(parts)
            else:
                retokenized[number] = visible
            passages.append(_Passage(start, shown, visible, ids))
        rows = tokenizer.rows(list(retokenized.values()), "document")
        for number, ids in zip(retokenized, rows, strict=True):
            passages[number] = passages[number]._replace(token_ids=ids)
        return passages

    def _context(self, title: str, section: Section, *, begins: bool = True) -> str:
        """Return title and heading path, shortened from the middle until they leave room for the text.

        `begins` says whether it is for a passage that has the beginning of the section.
        """
        path = section.path
        if begins and path and section.text.startswith(path[-1]):
            path = path[:-1]  # a definition's term stands in its text already
        # numbers help a reader to find the place, but make headings look alike to the model
        names = [_NUMBER.sub("", name, count=1) or name for name in (title, *path) if name]
        names = [name for name, before in zip(names, ["", *names], strict=False) if name != before]
        names = [*names[:_MOST_NAMES], *names[_MOST_NAMES:][-_MOST_NAMES:]]
        most = self._room // _CONTEXT_SHARE
        while len(names) > 2 and self._cache.count(SEPARATOR.join(names)) > most:
            del names[len(names) // 2]
        if self._cache.count(SEPARATOR.join(names)) > most:
            names = names[-1:]
        context = SEPARATOR.join(names)
        while context and self._cache.count(context) > most:
            context = context[: len(context) * 3 // 4].rstrip()
        return context


def _parts(section: Section) -> Iterator[Section]:
    """Yield a section, or parts of one that is too long to be cut at once; they end with lines or words."""
    if len(section.text) <= _LONGEST_SECTION:
        yield section
        return
    text, marks, wholes, start = section.text, section.marks, section.wholes, 0
    while start < len(text):
        end = stop = start + _LONGEST_SECTION
        if end < len(text):
            places = (text.rfind(mark, start + 1, end) for mark in ("\n\n", "\n", " "))
            end = stop = next((at for at in places if at > 0), end)
            while text.startswith("\n", stop):
                stop += 1
        within = marks[bisect_right(marks, start, key=itemgetter(0)) : bisect_left(marks, end, key=itemgetter(0))]
        inside = wholes[bisect_right(wholes, start, key=itemgetter(1)) : bisect_left(wholes, end, key=itemgetter(0))]
        yield Section(
            section.path,
            anchor_at(section, start),
            text[start:end],
            tuple((place - start, anchor) for place, anchor in within),
            tuple(Whole(max(0, first - start), min(last, end) - start, head) for first, last, head in inside),
        )
        start = stop


def _blocks(section: Section, place: int, text: str) -> tuple[TextBlock, ...]:
    """Return the code and tables of a passage that begins at a place of its section, or with a repeated table head."""
    inside = section.wholes[bisect_right(section.wholes, place, key=itemgetter(1)) :]
    added = 0 if section.text.startswith(text, place) else len(inside[0].head or "") + 1
    blocks: list[TextBlock] = []
    for whole in takewhile(lambda whole: whole.start < place + len(text) - added, inside):
        start = whole.start - place + added if whole.start >= place else 0
        end = min(whole.end - place + added, len(text))
        if whole.head is None or COLUMNS in text[start:end]:
            blocks.append(TextBlock(start, end, "code" if whole.head is None else "table"))
    return tuple(blocks)


def _is_between_words(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text has white space, or nothing, on both sides."""
    return (start == 0 or text[start - 1].isspace()) and (end == len(text) or text[end].isspace())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


_SHORT = 24  # tokens of a text that says too little to be found by itself

Length = Callable[[str], int]  # tokens of a text


def join_short(sections: Iterable[Section], size: int, length: Length) -> list[Section]:
    """Join short sections with what stands beside them: alone, a line under a telling heading outranks all.

    A lead-in becomes a part of the subsection it introduces. Short sections of one parent become one of at most `size`
    tokens, under the parent's path and the first one's anchor; their headings go into the text. One that finds no room
    ends the section before it, whose last passage it then shares.
    """
    led: list[_Group] = []  # every section with the sections before it that lead to it
    for section in sections:
        tokens, last = length(section.text), led[-1] if led else None
        if last and 0 < last.tokens < _SHORT and section.path[: len(last.path)] == last.path != section.path:
            last.members.append(section)
            last.path, last.tokens = section.path, last.tokens + tokens
        else:
            led.append(_Group([section], section.path, tokens))
    groups: list[_Group] = []
    for group in led:
        if not (groups and groups[-1].joins(group, size, length)):
            groups.append(group)
    found: list[Section] = []
    tokens_before = 0
    for group in groups:
        depth = _shared(found[-1].path, group.path) if found else 0
        is_next = depth >= len(group.path) - 1  # under its parent, after what is or ends what is before it
        if group.tokens < _SHORT <= tokens_before and is_next:
            found[-1] = _chained(found[-1].path, [found[-1], *_with_headings(group.members, depth)])
        else:
            members = _with_headings(group.members, len(group.path)) if group.has_headings else group.members
            found.append(_chained(group.path, members))
        tokens_before = group.tokens
    return found


@dataclass(slots=True)
class _Group:
    """Sections that become one, under a path."""

    members: list[Section]
    path: tuple[str, ...]
    tokens: int
    has_headings: bool = False  # in the text

    def joins(self, other: "_Group", size: int, length: Length) -> bool:
        """Take in the next group if one of the two is short, and if that makes sense and fits; return whether."""
        depth, depths = _shared(self.path, other.path), (len(self.path), len(other.path))
        is_near = depth >= min(depths) - (depths[0] == depths[1])  # of one parent, or within the other
        if not is_near or min(self.tokens, other.tokens) >= _SHORT:
            return False
        if self.has_headings and depth == len(self.path):
            added, total = [self.members[-1], *other.members], self.tokens
        else:
            added, total = [*self.members, *other.members], 0
        for section, heading in list(_headings(added, depth))[1 if total else 0 :]:
            total += length(section.text) + (length(heading) if heading else 0)
        if total > size:
            return False
        self.members += other.members
        self.path, self.tokens, self.has_headings = self.path[:depth], total, True
        return True


def _shared(path: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many steps two paths have in common."""
    steps = 0
    for one, another in zip(path, other, strict=False):
        if one != another:
            break
        steps += 1
    return steps


def _headings(sections: Iterable[Section], depth: int) -> Iterator[tuple[Section, str]]:
    """Yield sections with the headings that their texts need, from a depth on; that of a parent only for the first."""
    before: tuple[str, ...] = ()
    for section in sections:
        names, own = section.path[depth:], section.path[max(depth, _shared(before, section.path)) :]
        before = section.path
        # a definition's term stands in its text already
        is_needed = bool(names) and not section.text.startswith(names[-1])
        yield section, SEPARATOR.join(own or names) if is_needed else ""


def _with_headings(sections: Iterable[Section], depth: int) -> list[Section]:
    """Return sections with the headings that they need in their texts."""
    return [
        _chained(section.path, [Section((), section.anchor, heading), replace(section, anchor=None)])
        if heading
        else section
        for section, heading in _headings(sections, depth)
    ]


def _chained(path: tuple[str, ...], members: Sequence[Section]) -> Section:
    """Return sections joined into one, under one path; all their anchors stay in place."""
    texts: list[str] = []
    place = 0
    marks: list[tuple[int, str]] = []
    wholes: list[Whole] = []
    for member in members:
        if place:
            texts.append("\n\n")
            place += 2
        marks += [(place, member.anchor)] if member.anchor is not None else []
        marks += [(at + place, anchor) for at, anchor in member.marks]
        wholes += [Whole(start + place, end + place, head) for start, end, head in member.wholes]
        texts.append(member.text)
        place += len(member.text)
    first = members[0].anchor
    return Section(path, first, "".join(texts), tuple(marks[1:] if first is not None else marks), tuple(wholes))
