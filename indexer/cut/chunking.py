"""Cut documents into passages, measured in tokens of the embedding model."""

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
from indexer.records import COLUMNS, SEPARATOR, Chunk, Document, Section, SectionBlock, TextBlock, anchor_at
from indexer.text.cleaning import without_joiners

_CONTEXT_SHARE = 4  # heading context takes at most a quarter of the model's length
MAX_CHUNKS = 10_000
_MAX_SECTION_CHARACTERS = 100_000  # longer sections are divided first, to bound memory
_MAX_HEADINGS = 8
_MIN_TEXT_TOKENS = 16
_SHORT_TOKENS = 24  # shorter sections are joined with their neighbours
_NO_IDS = np.empty(0, np.int32)
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"^(?:Chapter \d+|Appendix [A-Z]|Part [IVX]+|\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)\.\s+")


class _Passage(NamedTuple):
    start: int
    text: str
    embedded_text: str
    token_ids: npt.NDArray[np.int32]


class Chunker:
    """Cuts documents into chunks that fit the model."""

    def __init__(self, embedder: Embedder, config: ChunkConfig) -> None:
        """Raise ConfigError if the model reads too few tokens."""
        self._embedder = embedder
        self._config = config
        self._cache = TokenCache(embedder.tokenizer)
        self._room = embedder.max_length - embedder.tokenizer.count([""], "document")[0]
        if self._room < 2 * _MIN_TEXT_TOKENS:
            raise ConfigError(f"the model reads only {embedder.max_length} tokens, too few to index passages")
        self._min_room = self._room - self._room // _CONTEXT_SHARE

    def split(self, document: Document) -> list[Chunk]:
        """Return the chunks of a document in reading order, at most `MAX_CHUNKS` + 1."""
        self._cache = TokenCache(self._embedder.tokenizer)
        sections = [short for section in document.sections for short in _divide(section)]
        self._cache.load(text for section in sections for text in (section.text, *section.path[-1:]))
        joined = join_short(sections, min(self._config.tokens, self._min_room), self._cache.count)
        repeats: Counter[str] = Counter()
        chunks: list[Chunk] = []
        for section, (start, text, embedded, ids) in islice(self._passages(document.title, joined), MAX_CHUNKS + 1):
            identity = "\x00".join((document.url, text, str(repeats[text])))
            repeats[text] += 1
            chunks.append(
                Chunk(
                    id=_hash(identity)[:32],
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
        """Yield the passages that have a letter or digit, with their sections."""
        for section in sections:
            for passage in self._split_section(title, section):
                if _WORD.search(passage.text):
                    yield section, passage
            if len(section.text) > _MAX_SECTION_CHARACTERS // 2:
                self._cache.clear()

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
                pieces = cut(section.text, budget, self._cache.tokens, section.blocks)
            passages = self._tokenized(section.text, pieces, [context, *[later] * (len(pieces) - 1)])
            longest = max((len(passage.token_ids) for passage in passages), default=0)
            if budget <= _MIN_TEXT_TOKENS or longest <= self._embedder.max_length:
                return passages
            budget = max(_MIN_TEXT_TOKENS, budget * 3 // 4)  # a piece has more tokens than its units

    def _tokenized(self, text: str, pieces: Sequence[Piece], contexts: Sequence[str]) -> list[_Passage]:
        """Return the passages of pieces. Only pieces that begin or end within a word are tokenized again."""
        tokenizer, tokens = self._embedder.tokenizer, self._cache.tokens(text)
        passages: list[_Passage] = []
        retokenized: dict[int, str] = {}
        for number, ((start, end, head), context) in enumerate(zip(pieces, contexts, strict=False)):
            shown = f"{head}\n{text[start:end]}" if head else text[start:end]
            embedded = f"{context}\n\n{shown}" if context else shown
            visible = without_joiners(embedded)
            ids = _NO_IDS
            if tokenizer.splits_at_space and visible == embedded and _is_between_words(text, start, end):
                context_tokens, head_tokens = self._cache.tokens(context), self._cache.tokens(head)
                ids = tokenizer.join_document([context_tokens, head_tokens, tokens.between(start, end)])
            else:
                retokenized[number] = visible
            passages.append(_Passage(start, shown, visible, ids))
        rows = tokenizer.rows(list(retokenized.values()), "document")
        for number, ids in zip(retokenized, rows, strict=True):
            passages[number] = passages[number]._replace(token_ids=ids)
        return passages

    def _context(self, title: str, section: Section, *, begins: bool = True) -> str:
        """Return title and heading path for a passage, shortened in the middle to leave room for the text.

        `begins` is true for the first passage of a section.
        """
        path = section.path
        if begins and path and section.text.startswith(path[-1]):
            path = path[:-1]  # a term, which its definition repeats
        # section numbers make headings look alike to the model
        names = [_NUMBER.sub("", name, count=1) or name for name in (title, *path) if name]
        names = [name for name, before in zip(names, ["", *names], strict=False) if name != before]
        names = [*names[:_MAX_HEADINGS], *names[_MAX_HEADINGS:][-_MAX_HEADINGS:]]
        limit = self._room // _CONTEXT_SHARE
        while len(names) > 2 and self._cache.count(SEPARATOR.join(names)) > limit:
            del names[len(names) // 2]
        if self._cache.count(SEPARATOR.join(names)) > limit:
            names = names[-1:]
        context = SEPARATOR.join(names)
        while context and self._cache.count(context) > limit:
            context = context[: len(context) * 3 // 4].rstrip()
        return context


def _divide(section: Section) -> Iterator[Section]:
    """Yield a section, or shorter sections if it is very long; they end with lines or words."""
    if len(section.text) <= _MAX_SECTION_CHARACTERS:
        yield section
        return
    text, marks, blocks, start = section.text, section.marks, section.blocks, 0
    while start < len(text):
        end = stop = start + _MAX_SECTION_CHARACTERS
        if end < len(text):
            places = (text.rfind(mark, start + 1, end) for mark in ("\n\n", "\n", " "))
            end = stop = next((at for at in places if at > 0), end)
            while text.startswith("\n", stop):
                stop += 1
        within = marks[bisect_right(marks, start, key=itemgetter(0)) : bisect_left(marks, end, key=itemgetter(0))]
        inside = blocks[bisect_right(blocks, start, key=itemgetter(1)) : bisect_left(blocks, end, key=itemgetter(0))]
        yield Section(
            section.path,
            anchor_at(section, start),
            text[start:end],
            tuple((place - start, anchor) for place, anchor in within),
            tuple(SectionBlock(max(0, first - start), min(last, end) - start, head) for first, last, head in inside),
        )
        start = stop


def _blocks(section: Section, place: int, text: str) -> tuple[TextBlock, ...]:
    """Return the code and tables of a passage that begins at a place of its section, or with a repeated table head."""
    inside = section.blocks[bisect_right(section.blocks, place, key=itemgetter(1)) :]
    added = 0 if section.text.startswith(text, place) else len(inside[0].head or "") + 1
    blocks: list[TextBlock] = []
    for whole in takewhile(lambda whole: whole.start < place + len(text) - added, inside):
        start = whole.start - place + added if whole.start >= place else 0
        end = min(whole.end - place + added, len(text))
        if whole.head is None or COLUMNS in text[start:end]:
            blocks.append(TextBlock(start, end, "code" if whole.head is None else "table"))
    return tuple(blocks)


def _is_between_words(text: str, start: int, end: int) -> bool:
    """Return whether text[start:end] has white space or an end of the text on both sides."""
    return (start == 0 or text[start - 1].isspace()) and (end == len(text) or text[end].isspace())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


Length = Callable[[str], int]  # counts the tokens of a text


def join_short(sections: Iterable[Section], size: int, length: Length) -> list[Section]:
    """Join short sections with their neighbours: by itself, a line below a good heading would outrank everything.

    An introduction becomes part of the subsection after it. Short sections with one parent become one of at most `size`
    tokens, with the path of the parent, the fragment of the first and headings in the text. Other short sections are
    appended to the section before.
    """
    introduced: list[_Group] = []  # sections with the introductions before them
    for section in sections:
        tokens, last = length(section.text), introduced[-1] if introduced else None
        if last and 0 < last.tokens < _SHORT_TOKENS and section.path[: len(last.path)] == last.path != section.path:
            last.members.append(section)
            last.path, last.tokens = section.path, last.tokens + tokens
        else:
            introduced.append(_Group([section], section.path, tokens))
    groups: list[_Group] = []
    for group in introduced:
        if not (groups and groups[-1].joins(group, size, length)):
            groups.append(group)
    joined: list[Section] = []
    tokens_before = 0
    for group in groups:
        depth = _common_length(joined[-1].path, group.path) if joined else 0
        is_next = depth >= len(group.path) - 1
        if group.tokens < _SHORT_TOKENS <= tokens_before and is_next:
            joined[-1] = _join(joined[-1].path, [joined[-1], *_with_headings(group.members, depth)])
        else:
            members = _with_headings(group.members, len(group.path)) if group.has_headings else group.members
            joined.append(_join(group.path, members))
        tokens_before = group.tokens
    return joined


@dataclass(slots=True)
class _Group:
    """Sections to be joined."""

    members: list[Section]
    path: tuple[str, ...]
    tokens: int
    has_headings: bool = False  # include the headings of the members in the text

    def joins(self, other: "_Group", size: int, length: Length) -> bool:
        """Add the next group if one of the two is short, both have one parent and they fit; return whether it did."""
        depth, depths = _common_length(self.path, other.path), (len(self.path), len(other.path))
        is_near = depth >= min(depths) - (depths[0] == depths[1])
        if not is_near or min(self.tokens, other.tokens) >= _SHORT_TOKENS:
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


def _common_length(path: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return the number of headings at the beginning that two paths have in common."""
    steps = 0
    for one, another in zip(path, other, strict=False):
        if one != another:
            break
        steps += 1
    return steps


def _headings(sections: Iterable[Section], depth: int) -> Iterator[tuple[Section, str]]:
    """Yield sections with the headings below a depth that their texts need; a parent's heading for its first only."""
    before: tuple[str, ...] = ()
    for section in sections:
        headings, new = section.path[depth:], section.path[max(depth, _common_length(before, section.path)) :]
        before = section.path
        is_needed = bool(headings) and not section.text.startswith(headings[-1])  # a definition repeats its term
        yield section, SEPARATOR.join(new or headings) if is_needed else ""


def _with_headings(sections: Iterable[Section], depth: int) -> list[Section]:
    """Return sections with headings in their texts."""
    return [
        _join(section.path, [Section((), section.anchor, heading), replace(section, anchor=None)])
        if heading
        else section
        for section, heading in _headings(sections, depth)
    ]


def _join(path: tuple[str, ...], members: Sequence[Section]) -> Section:
    """Join sections into one."""
    texts: list[str] = []
    place = 0
    marks: list[tuple[int, str]] = []
    blocks: list[SectionBlock] = []
    for member in members:
        if place:
            texts.append("\n\n")
            place += 2
        marks += [(place, member.anchor)] if member.anchor is not None else []
        marks += [(at + place, anchor) for at, anchor in member.marks]
        blocks += [SectionBlock(start + place, end + place, head) for start, end, head in member.blocks]
        texts.append(member.text)
        place += len(member.text)
    first = members[0].anchor
    return Section(path, first, "".join(texts), tuple(marks[1:] if first is not None else marks), tuple(blocks))
