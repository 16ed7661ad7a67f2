"""Split documents into chunks. The maximum length of a chunk is in tokens of the embedding model."""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, repeat, takewhile
from operator import eq, itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.model.tokenizer import TextTokens, Tokenizer
from embedder.text_embedder import Embedder
from indexer.cut.cuts import Piece, cut, min_tokens
from indexer.errors import ConfigError
from indexer.network.urls import with_anchor
from indexer.records import COLUMNS, SEPARATOR, Chunk, Document, Section, SectionBlock, TextBlock, anchor_at
from indexer.text.cleaning import without_joiners

MAX_CHUNKS = 10_000
_MAX_CONTEXT_SHARE = 0.25
_MAX_SECTION_CHARACTERS = 100_000
_MAX_HEADINGS = 8
_MIN_TEXT_TOKENS = 16
_SHORT_SECTION_TOKENS = 24
_PARAGRAPH_BREAK = "\n\n"
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"^(?:Chapter \d+|Appendix [A-Z]|Part [IVX]+|\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)\.\s+")


class _Passage(NamedTuple):
    start: int
    text: str
    embedded_text: str
    token_ids: npt.NDArray[np.int32]


class Chunker:
    """Splits documents into chunks that fit into the input of the embedding model."""

    def __init__(self, embedder: Embedder, max_tokens: int) -> None:
        """Set the model and the size of chunks.

        Args:
            embedder: the model; a chunk with its title and headings must fit into the input of the model.
            max_tokens: maximum number of tokens of a chunk without its title and headings.

        Raises:
            ConfigError: the input of the model is too short.
        """
        self._embedder = embedder
        self._max_tokens = max_tokens
        self._cache = TokenCache(embedder.tokenizer)
        special_tokens = embedder.tokenizer.count([""], "document")[0]
        self._room = embedder.max_length - special_tokens
        if self._room < 2 * _MIN_TEXT_TOKENS:
            least = special_tokens + 2 * _MIN_TEXT_TOKENS
            raise ConfigError(f"the model accepts only {embedder.max_length} tokens, but passages need {least}")
        self._max_context_tokens = int(self._room * _MAX_CONTEXT_SHARE)

    def split(self, document: Document) -> list[Chunk]:
        """Return the chunks of a document in reading order. A result of `MAX_CHUNKS` + 1 chunks is incomplete."""
        self._cache.clear()
        sections = [short for section in document.sections for short in _divide(section)]
        self._cache.load(text for section in sections for text in (section.text, *section.path[-1:]))
        size = min(self._max_tokens, self._room - self._max_context_tokens)
        joined = join_short(sections, size, self._cache.count)
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
        """Yield (section, passage) for each passage that contains a letter or digit."""
        for section in sections:
            for passage in self._split_section(title, section):
                if _WORD.search(passage.text):
                    yield section, passage
            if len(section.text) > _MAX_SECTION_CHARACTERS // 2:
                self._cache.clear()

    def _split_section(self, title: str, section: Section) -> list[_Passage]:
        context = later_context = self._context(title, section, is_first=True)
        length, tokens = self._cache.count(section.text), self._cache.tokens(section.text)
        budget = min(self._max_tokens, self._room - self._cache.count(context))
        if length > budget:
            later_context = self._context(title, section, is_first=False)
            budget = min(budget, self._room - self._cache.count(later_context))
        while True:
            pieces = [Piece(0, len(section.text))]
            if length > budget:
                pieces = cut(section.text, budget, self._cache.tokens, section.blocks)
            contexts = chain([context], repeat(later_context))
            passages = [self._tokenize(section.text, tokens, *pair) for pair in zip(pieces, contexts, strict=False)]
            longest = max((len(passage.token_ids) for passage in passages), default=0)
            if budget <= _MIN_TEXT_TOKENS or longest <= self._embedder.max_length:
                return passages
            budget = max(_MIN_TEXT_TOKENS, budget * 3 // 4)  # a passage may have more tokens than its paragraphs alone

    def _tokenize(self, text: str, tokens: TextTokens, piece: Piece, context: str) -> _Passage:
        """Return one piece of a section's text as a passage. Uses cached tokens for its token ids if possible."""
        tokenizer, (start, end, head) = self._embedder.tokenizer, piece
        shown = f"{head}\n{text[start:end]}" if head else text[start:end]
        embedded = f"{context}\n\n{shown}" if context else shown
        visible = without_joiners(embedded)
        if tokenizer.splits_at_space and visible == embedded and _is_between_words(text, start, end):
            before = [self._cache.tokens(context), self._cache.tokens(head)]
            ids = tokenizer.join_document([*before, tokens.between(start, end)])
        else:
            [ids] = tokenizer.rows([visible], "document")
        return _Passage(start, shown, visible, ids)

    def _context(self, title: str, section: Section, *, is_first: bool) -> str:
        """Return the title and heading path to embed before a passage. If they are too long, drop middle headings."""
        path = section.path
        if is_first and path and section.text.startswith(path[-1]):
            path = path[:-1]  # the text already begins with this heading
        # section numbers are removed, because they would make the vectors of unrelated headings similar
        names = [_NUMBER.sub("", name, count=1) or name for name in (title, *path) if name]
        names = [name for name, before in zip(names, ["", *names], strict=False) if name != before]
        names = [*names[:_MAX_HEADINGS], *names[_MAX_HEADINGS:][-_MAX_HEADINGS:]]
        limit = self._max_context_tokens
        while len(names) > 2 and self._cache.count(SEPARATOR.join(names)) > limit:
            del names[len(names) // 2]
        if self._cache.count(SEPARATOR.join(names)) > limit:
            names = names[-1:]
        context = SEPARATOR.join(names)
        while context and self._cache.count(context) > limit:
            context = context[: len(context) * 3 // 4].rstrip()
        return context


class TokenCache:
    """A cache for the tokens of paragraphs, so that each paragraph of a document is tokenized only once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[str, TextTokens] = {}
        self.clear = self._tokens.clear

    def load(self, texts: Iterable[str]) -> None:
        """Tokenize the paragraphs of several texts in one call, and cache the tokens."""
        paragraphs = dict.fromkeys(chain.from_iterable(map(self._paragraphs, texts)))
        if missing := [paragraph for paragraph in paragraphs if paragraph not in self._tokens]:
            self._tokens |= zip(missing, self._tokenizer.spans(missing), strict=True)

    def tokens(self, text: str) -> TextTokens:
        """Return the tokens of a text, from the cache if possible."""
        self.load([text])
        lengths = (len(paragraph) + len(_PARAGRAPH_BREAK) for paragraph in text.split(_PARAGRAPH_BREAK))
        paragraphs = [self._tokens[paragraph] for paragraph in self._paragraphs(text)]
        return TextTokens.join(paragraphs, list(accumulate(lengths, initial=0))[: len(paragraphs)])

    def count(self, text: str) -> int:
        """Return the number of tokens of a text without special tokens, but at least `min_tokens`."""
        self.load([text])
        count = sum(len(self._tokens[paragraph].ids) for paragraph in self._paragraphs(text))
        return max(count, min_tokens(text))

    def _paragraphs(self, text: str) -> list[str]:
        """Split a text into paragraphs, unless the tokenizer would tokenize separate paragraphs differently."""
        if not self._tokenizer.splits_at_space:
            return [text]
        return [paragraph.rstrip() for paragraph in text.split(_PARAGRAPH_BREAK)]


def _divide(section: Section) -> Iterator[Section]:
    """Split a section into sections of up to `_MAX_SECTION_CHARACTERS`, if possible at a line break or space."""
    if len(section.text) <= _MAX_SECTION_CHARACTERS:
        yield section
        return
    text, marks, blocks, start = section.text, section.marks, section.blocks, 0
    while start < len(text):
        end = stop = start + _MAX_SECTION_CHARACTERS
        if end < len(text):
            breaks = (text.rfind(mark, start + 1, end) for mark in ("\n\n", "\n", " "))
            end = stop = next((place for place in breaks if place > 0), end)
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
    """Return the positions of code and tables in the passage `text`, which begins at character `place` of a section.

    If a split table continues in the passage, `text` may begin with a copy of the table's head.
    """
    inside = section.blocks[bisect_right(section.blocks, place, key=itemgetter(1)) :]
    head_length = 0 if section.text.startswith(text, place) else len(inside[0].head or "") + 1
    blocks: list[TextBlock] = []
    for block in takewhile(lambda block: block.start < place + len(text) - head_length, inside):
        start = block.start - place + head_length if block.start >= place else 0
        end = min(block.end - place + head_length, len(text))
        if block.head is None or COLUMNS in text[start:end]:
            blocks.append(TextBlock(start, end, "code" if block.head is None else "table"))
    return tuple(blocks)


def _is_between_words(text: str, start: int, end: int) -> bool:
    return (start == 0 or text[start - 1].isspace()) and (end == len(text) or text[end].isspace())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def join_short(sections: Iterable[Section], size: int, count_tokens: Callable[[str], int]) -> list[Section]:
    """Join short sections with their neighbours, because a heading with hardly any text would rank too high.

    A short introduction is joined with the subsection after it. Short sections with the same parent become one section
    of at most `size` tokens. The joined section has the path of the parent and the anchor of the first section, and its
    text includes all headings. Other short sections are appended to the section before them.
    """
    introduced: list[_Group] = []
    for section in sections:
        tokens, last = count_tokens(section.text), introduced[-1] if introduced else None
        is_short = last is not None and 0 < last.tokens < _SHORT_SECTION_TOKENS
        if last and is_short and section.path[: len(last.path)] == last.path != section.path:
            last.members.append(section)
            last.path, last.tokens = section.path, last.tokens + tokens
        else:
            introduced.append(_Group([section], section.path, tokens))
    groups: list[_Group] = []
    for group in introduced:
        if not (groups and groups[-1].try_merge(group, size, count_tokens)):
            groups.append(group)
    joined: list[Section] = []
    tokens_before = 0
    for group in groups:
        depth = _common_length(joined[-1].path, group.path) if joined else 0
        is_next = depth >= len(group.path) - 1
        if group.tokens < _SHORT_SECTION_TOKENS <= tokens_before and is_next:
            joined[-1] = _join(joined[-1].path, [joined[-1], *_with_headings(group.members, depth)])
        else:
            members = _with_headings(group.members, len(group.path)) if group.has_headings else group.members
            joined.append(_join(group.path, members))
        tokens_before = group.tokens
    return joined


@dataclass(slots=True)
class _Group:
    """Sections that will be joined. If `has_headings` is true, the joined text includes their headings."""

    members: list[Section]
    path: tuple[str, ...]
    tokens: int
    has_headings: bool = False

    def try_merge(self, other: "_Group", size: int, count_tokens: Callable[[str], int]) -> bool:
        """Merge the next group into this group if possible, and return whether they were merged.

        Groups are not merged if their parents differ, if both are long, or if together they have over `size` tokens.
        """
        depth, depths = _common_length(self.path, other.path), (len(self.path), len(other.path))
        is_near = depth >= min(depths) - (depths[0] == depths[1])
        if not is_near or min(self.tokens, other.tokens) >= _SHORT_SECTION_TOKENS:
            return False
        if self.has_headings and depth == len(self.path):
            added, total = [self.members[-1], *other.members], self.tokens
        else:
            added, total = [*self.members, *other.members], 0
        for section, heading in list(_headings(added, depth))[1 if total else 0 :]:
            total += count_tokens(section.text) + (count_tokens(heading) if heading else 0)
        if total > size:
            return False
        self.members += other.members
        self.path, self.tokens, self.has_headings = self.path[:depth], total, True
        return True


def _common_length(path: tuple[str, ...], other: tuple[str, ...]) -> int:
    return sum(takewhile(bool, map(eq, path, other)))


def _headings(sections: Iterable[Section], depth: int) -> Iterator[tuple[Section, str]]:
    """Yield each section with a line of headings to insert before its text, or with "" if none is needed.

    The first `depth` headings of a path are never inserted, and a parent's heading only before its first section.
    """
    before: tuple[str, ...] = ()
    for section in sections:
        headings, new = section.path[depth:], section.path[max(depth, _common_length(before, section.path)) :]
        before = section.path
        is_needed = bool(headings) and not section.text.startswith(headings[-1])
        yield section, SEPARATOR.join(new or headings) if is_needed else ""


def _with_headings(sections: Iterable[Section], depth: int) -> list[Section]:
    return [
        _join(section.path, [Section((), section.anchor, heading), replace(section, anchor=None)])
        if heading
        else section
        for section, heading in _headings(sections, depth)
    ]


def _join(path: tuple[str, ...], members: Sequence[Section]) -> Section:
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
