"""Documents to passages, counted in the model's own tokens."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from embedder.protocol import Embedder
from indexer.config import ChunkConfig
from indexer.cut.cuts import cut
from indexer.decoding import without_joiners
from indexer.errors import ConfigError
from indexer.records import SEPARATOR, Chunk, Document, Section, Whole, anchor_at
from indexer.urls import with_anchor

_CHARACTERS_PER_TOKEN = 12  # at most; some tokenizers make one token of a word of any length
_CONTEXT_SHARE = 4  # heading context takes at most this part of the model's length
MOST_CHUNKS = 10_000  # of one document: a book has 5,000, a log as many as it has lines
_LONGEST_SECTION = 100_000  # characters cut at a time, so that memory does not grow with what one document says
_COUNTED = 500_000  # characters of texts whose tokens are counted at a time: each takes 200 bytes meanwhile
_LEAST = 16  # tokens of text for which the model must have room
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"^(?:Chapter \d+|Appendix [A-Z]|Part [IVX]+|\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)\.\s+")


class Chunker:
    """Cuts documents into chunks that fit the model; keeps no state between documents."""

    def __init__(self, embedder: Embedder, config: ChunkConfig) -> None:
        """Raise ConfigError if the model cannot read even a short passage."""
        self._embedder = embedder
        self._config = config
        self._special = embedder.count_tokens([""])[0]  # tokens the model adds to every text
        self._room = embedder.max_length - self._special
        if self._room < 2 * _LEAST:
            raise ConfigError(f"the model reads only {embedder.max_length} tokens, too few to index passages")
        self._least_room = self._room - self._room // _CONTEXT_SHARE  # of text, with the longest context
        self._counts: dict[str, int] = {}

    def split(self, document: Document) -> list[Chunk]:
        """Return the chunks of one document, in reading order; none is longer than the model reads.

        They are at most `MOST_CHUNKS` and one more, where there would be others.
        """
        self._counts.clear()
        sections = [part for section in document.sections for part in _parts(section)]
        self._lengths([section.text for section in sections])
        joined = join_short(sections, min(self._config.tokens, self._least_room), self._length)
        pieces = list(islice(self._pieces(document.title, joined), MOST_CHUNKS + 1))
        self._counts.clear()
        embedded = [_with_context(text, context) for _, _, context, text in pieces]
        lengths = self._count(embedded)
        repeats: Counter[str] = Counter()
        chunks = []
        for position, ((section, anchor, _, text), read) in enumerate(zip(pieces, embedded, strict=True)):
            known_by = "\x00".join((document.url, text, str(repeats[text])))
            repeats[text] += 1
            chunks.append(
                Chunk(
                    id=_hash(known_by)[:32],
                    url=with_anchor(document.url, anchor),
                    document_url=document.url,
                    title=document.title,
                    section=SEPARATOR.join(section.path),
                    text=text,
                    embedded_text=read,
                    content_hash=_hash(read),
                    tokens=lengths[position],
                    position=position,
                )
            )
        return chunks

    def _pieces(self, title: str, sections: Iterable[Section]) -> Iterator[tuple[Section, str | None, str, str]]:
        """Yield passages, each with its section, the nearest anchor, and its heading context."""
        for section in sections:
            for place, text, context in self._split_section(title, section):
                if _WORD.search(text):
                    yield section, anchor_at(section, place), context, text
            if len(section.text) > _LONGEST_SECTION // 2:
                self._counts.clear()  # its words, of which there may be any number

    def _split_section(self, title: str, section: Section) -> list[tuple[int, str, str]]:
        """Return parts of a section's text, each with its place and its heading context."""
        text, context = section.text, self._context(title, section)
        is_whole = self._length(text) <= min(self._config.tokens, self._room - self._length(context))
        if is_whole and self._fits([(text, context)]):
            return [(0, text, context)]
        later = self._context(title, section, begins=False)
        budget = min(self._config.tokens, self._room - max(self._length(context), self._length(later)))
        while True:
            is_whole = self._length(text) <= budget
            found = [(0, text)] if is_whole else cut(text, budget, self._lengths, section.wholes)
            pieces = [(*piece, later if number else context) for number, piece in enumerate(found)]
            if budget <= _LEAST or self._fits([piece[1:] for piece in pieces]):
                return pieces
            budget = max(_LEAST, budget * 3 // 4)  # tokens of the parts did not add up to those of the whole

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
        most = self._room // _CONTEXT_SHARE
        while len(names) > 2 and self._length(SEPARATOR.join(names)) > most:
            del names[len(names) // 2]
        if self._length(SEPARATOR.join(names)) > most:
            names = names[-1:]
        context = SEPARATOR.join(names)
        while context and self._length(context) > most:
            context = context[: len(context) * 3 // 4].rstrip()
        return context

    def _fits(self, pieces: Sequence[tuple[str, str]]) -> bool:
        texts = [_with_context(text, context) for text, context in pieces]
        return max(self._embedder.count_tokens(texts), default=0) <= self._embedder.max_length

    def _count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of texts, so many at a time that memory stays flat."""
        counts: list[int] = []
        start = length = 0
        for end, text in enumerate(texts, 1):
            length += len(text)
            if length >= _COUNTED or end == len(texts):
                counts += self._embedder.count_tokens(texts[start:end])
                start, length = end, 0
        return counts

    def _length(self, text: str) -> int:
        return self._lengths([text])[0]

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        """Count texts, those not met before in one call; neither white space at the ends nor tokens the model adds."""
        stripped = [text.strip() for text in texts]
        wanted = [text for text in dict.fromkeys(stripped) if text not in self._counts]
        for text, count in zip(wanted, self._count(wanted), strict=True):
            self._counts[text] = max(count - self._special, len(text) // _CHARACTERS_PER_TOKEN)
        return [self._counts[text] for text in stripped]


def _parts(section: Section) -> Iterator[Section]:
    """Yield a section, or parts of one that is too long to be cut at once; they end with lines or words."""
    while len(section.text) > _LONGEST_SECTION:
        text = section.text
        end = next((at for mark in ("\n\n", "\n", " ") if (at := text.rfind(mark, 1, _LONGEST_SECTION)) > 0), 0)
        first = text[: end or _LONGEST_SECTION]
        yield replace(section, text=first, wholes=tuple(one for one in section.wholes if one.end <= len(first)))
        start = len(text) - len(text[len(first) :].lstrip("\n"))
        marks = tuple((place - start, anchor) for place, anchor in section.marks if place > start)
        wholes = tuple(Whole(at - start, stop - start, head) for at, stop, head in section.wholes if at >= start)
        section = Section(section.path, anchor_at(section, start), text[start:], marks, wholes)
    yield section


def _with_context(text: str, context: str) -> str:
    """Return the text that the model reads for a passage."""
    return without_joiners(f"{context}\n\n{text}" if context else text)


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
    led: list[list[Section]] = []  # every section with the sections before it that lead to it
    for section in sections:
        path = led[-1][-1].path if led else section.path
        is_within = len(section.path) > len(path) and section.path[: len(path)] == path
        if is_within and 0 < sum(length(one.text) for one in led[-1]) < _SHORT:
            led[-1].append(section)
        else:
            led.append([section])
    groups: list[tuple[list[Section], Section, int]] = []  # sections, all of them as one, and its tokens
    for members in led:
        section = _chained(members[-1].path, members) if len(members) > 1 else members[0]
        tokens = length(section.text)
        if groups:
            before, joined, count = groups[-1]
            path = _shared(joined.path, section.path)
            depths = len(joined.path), len(section.path)
            is_near = len(path) >= min(depths) - (depths[0] == depths[1])  # of one parent, or within the other
            if is_near and min(count, tokens) < _SHORT:
                together = [*before, *members]
                joined = _chained(path, _with_headings(together, len(path)))
                if (total := length(joined.text)) <= size:
                    groups[-1] = together, joined, total
                    continue
        groups.append((members, section, tokens))
    found: list[Section] = []
    tokens_before = 0
    for members, joined, tokens in groups:
        depth = len(_shared(found[-1].path, joined.path)) if found else 0
        is_next = depth >= len(joined.path) - 1  # under its parent, after what is or ends what is before it
        if tokens < _SHORT <= tokens_before and is_next:
            found[-1] = _chained(found[-1].path, [found[-1], *_with_headings(members, depth)])
        else:
            found.append(joined)
        tokens_before = tokens
    return found


def _shared(path: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    while same < min(len(path), len(other)) and path[same] == other[same]:
        same += 1
    return path[:same]


def _with_headings(sections: Sequence[Section], depth: int) -> list[Section]:
    """Put the headings of sections into their texts, from this depth on; a parent of several stands above the first."""
    found: list[Section] = []
    before: tuple[str, ...] = ()
    for section in sections:
        names = section.path[depth:]
        own = section.path[max(depth, len(_shared(before, section.path))) :]
        before = section.path
        if not names or section.text.startswith(names[-1]):  # a definition's term stands in its text already
            found.append(section)
            continue
        heading = Section((), None, SEPARATOR.join(own or names))
        found.append(replace(_chained(section.path, [heading, replace(section, anchor=None)]), anchor=section.anchor))
    return found


def _chained(path: tuple[str, ...], members: Sequence[Section]) -> Section:
    """Return sections joined into one, under one path; all their anchors stay in place."""
    text = ""
    marks: list[tuple[int, str]] = []
    wholes: list[Whole] = []
    for member in members:
        text += "\n\n" if text else ""
        marks += [(len(text), member.anchor)] if member.anchor is not None else []
        marks += [(place + len(text), anchor) for place, anchor in member.marks]
        wholes += [Whole(start + len(text), end + len(text), head) for start, end, head in member.wholes]
        text += member.text
    first = members[0].anchor
    return Section(path, first, text, tuple(marks[1:] if first is not None else marks), tuple(wholes))
