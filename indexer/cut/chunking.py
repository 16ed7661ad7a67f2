"""Documents to passages, counted in the model's own tokens."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from embedder.protocol import Embedder
from indexer.config import ChunkConfig
from indexer.cut.cuts import cut
from indexer.cut.sections import join_short
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
        embedded = [with_context(text, context) for _, _, context, text in pieces]
        lengths = self._count(embedded)
        repeats: Counter[str] = Counter()
        chunks = []
        for position, ((section, anchor, _, text), read, tokens) in enumerate(
            zip(pieces, embedded, lengths, strict=True)
        ):
            chunks.append(
                Chunk(
                    id=_chunk_id(document.url, text, repeats[text]),
                    url=with_anchor(document.url, anchor),
                    document_url=document.url,
                    title=document.title,
                    section=SEPARATOR.join(section.path),
                    text=text,
                    embedded_text=read,
                    content_hash=hash_text(read),
                    tokens=tokens,
                    position=position,
                )
            )
            repeats[text] += 1
        return chunks

    def for_this_model(self, chunks: Sequence[Chunk]) -> list[Chunk] | None:
        """Return chunks of one document, cut for another model, as this one reads them; None if one is too long for it.

        Their embedded texts need not be there: they are made of heading context and text anew.
        """
        texts, before = [], None
        for chunk in chunks:
            section = Section(tuple(chunk.section.split(SEPARATOR)) if chunk.section else (), None, chunk.text)
            # a passage that begins its section may have the last heading in its text; the hash says which it was
            contexts = [self.context(chunk.title, section, begins=begins) for begins in (True, False)]
            read = [with_context(chunk.text, context) for context in contexts]
            same = [text for text in read if hash_text(text) == chunk.content_hash]
            texts.append(same[0] if same else read[chunk.section == before])
            before = chunk.section
        lengths = self._count(texts)
        self._counts.clear()
        if max(lengths, default=0) > self._embedder.max_length:
            return None
        return [
            replace(chunk, embedded_text=text, content_hash=hash_text(text), tokens=tokens)
            for chunk, text, tokens in zip(chunks, texts, lengths, strict=True)
        ]

    def _pieces(self, title: str, sections: Iterable[Section]) -> Iterator[tuple[Section, str | None, str, str]]:
        """Passages, each with its section, the nearest anchor, and its heading context."""
        for section in sections:
            for place, text, context in self._split_section(title, section):
                if _WORD.search(text):
                    yield section, anchor_at(section, place), context, text
            if len(section.text) > _LONGEST_SECTION // 2:
                self._counts.clear()  # its words, of which there may be any number

    def _split_section(self, title: str, section: Section) -> list[tuple[int, str, str]]:
        """Parts of a section's text, each with its place and its heading context."""
        text, context = section.text, self.context(title, section)
        is_whole = self._length(text) <= min(self._config.tokens, self._room - self._length(context))
        if is_whole and self._fits([with_context(text, context)]):
            return [(0, text, context)]
        later = self.context(title, section, begins=False)
        budget = min(self._config.tokens, self._room - max(self._length(context), self._length(later)))
        while True:
            overlap = min(self._config.overlap, budget // 2)
            is_whole = self._length(text) <= budget
            found = [(0, text)] if is_whole else cut(text, budget, overlap, self._lengths, section.wholes)
            pieces = [(*piece, later if number else context) for number, piece in enumerate(found)]
            if budget <= _LEAST or self._fits([with_context(text, above) for _, text, above in pieces]):
                return pieces
            budget = max(_LEAST, budget * 3 // 4)  # tokens of the parts did not add up to those of the whole

    def context(self, title: str, section: Section, *, begins: bool = True) -> str:
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

    def _fits(self, texts: Sequence[str]) -> bool:
        return max(self._embedder.count_tokens(texts), default=0) <= self._embedder.max_length

    def _count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of texts, counted so many at a time that memory stays flat."""
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
    """A section, or parts of one that is too long to be cut at once; they end with lines or words if they can."""
    while len(section.text) > _LONGEST_SECTION:
        text = section.text
        end = next((at for mark in ("\n\n", "\n", " ") if (at := text.rfind(mark, 1, _LONGEST_SECTION)) > 0), 0)
        first = text[: end or _LONGEST_SECTION]
        yield replace(section, text=first, wholes=tuple(one for one in section.wholes if one.end <= len(first)))
        rest = text[end or _LONGEST_SECTION :].lstrip("\n")
        section = _from(section, len(text) - len(rest))
    yield section


def _from(section: Section, start: int) -> Section:
    """Return the rest of a section, from a character on."""
    marks = tuple((place - start, anchor) for place, anchor in section.marks if place > start)
    wholes = tuple(Whole(at - start, end - start, head) for at, end, head in section.wholes if at >= start)
    return Section(section.path, anchor_at(section, start), section.text[start:], marks, wholes)


def with_context(text: str, context: str) -> str:
    """Return the text that the model reads for a passage."""
    return without_joiners(f"{context}\n\n{text}" if context else text)


def hash_text(text: str) -> str:
    """Return the SHA-256, in hex, of the text that the model reads."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _chunk_id(url: str, text: str, repeat: int) -> str:
    return hashlib.sha256("\x00".join((url, text, str(repeat))).encode("utf-8", "replace")).hexdigest()[:32]
