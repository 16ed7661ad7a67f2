"""Documents to passages, counted in the model's own tokens."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from langchain_text_splitters import RecursiveCharacterTextSplitter

from embedder.protocol import Embedder
from indexer.config import ChunkConfig
from indexer.errors import ConfigError
from indexer.records import SEPARATOR, Chunk, Document, Section
from indexer.urls import with_anchor

_SEPARATORS = [r"\n\n", r"\n", r"(?<=[.!?;:])\s+|(?<=[。！？；])", r"\s+", ""]  # from the best cut to the worst
_CHARACTERS_PER_TOKEN = 12  # at most; some tokenizers make one token of a word of any length
_CONTEXT_SHARE = 4  # heading context takes at most this part of the model's length
_LEAST = 16  # tokens of text for which the model must have room
_UNEVEN = 1.15  # how far a passage may exceed the even share of its section, so that paragraphs stay whole
_SHORT = 24  # tokens of a lead-in that says too little to be found by itself
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"^(?:Chapter \d+|Appendix [A-Z]|Part [IVX]+|\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)\.\s+")


class Chunker:
    """Cuts documents into chunks that fit the model; keeps no state between documents."""

    def __init__(self, embedder: Embedder, config: ChunkConfig) -> None:
        """Raises ConfigError if the model cannot read even a short passage."""
        self._embedder = embedder
        self._config = config
        self._special = embedder.count_tokens([""])[0]  # tokens the model adds to every text
        self._room = embedder.max_length - self._special
        if self._room < 2 * _LEAST:
            raise ConfigError(f"the model reads only {embedder.max_length} tokens, too few to index passages")
        self._counts: dict[str, int] = {}

    def split(self, document: Document) -> list[Chunk]:
        """Chunks of one document, in reading order; none is longer than the model reads."""
        self._counts.clear()
        self._count_all(block for section in document.sections for block in section.text.split("\n\n"))
        pieces = [
            (section, context, text)
            for section in self._with_lead_ins(document.sections)
            for context in [self.context(document.title, section)]
            for text in self._split_section(section.text, context)
            if _WORD.search(text)
        ]
        embedded = [f"{context}\n\n{text}" if context else text for _, context, text in pieces]
        lengths = self._embedder.count_tokens(embedded)
        repeats: Counter[str] = Counter()
        chunks = []
        for position, ((section, _, text), read, tokens) in enumerate(zip(pieces, embedded, lengths, strict=True)):
            chunks.append(
                Chunk(
                    id=_chunk_id(document.url, text, repeats[text]),
                    url=with_anchor(document.url, section.anchor),
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

    def _with_lead_ins(self, sections: Iterable[Section]) -> list[Section]:
        """Join a short section with the subsection that follows: alone, a line under a telling heading outranks all."""
        joined: list[Section] = []
        for section in sections:
            lead = joined[-1] if joined else None
            if lead and _is_within(section, lead) and 0 < self._length(lead.text) < _SHORT:
                joined[-1] = replace(section, text=f"{lead.text}\n\n{section.text}")
            else:
                joined.append(section)
        return joined

    def _split_section(self, text: str, context: str) -> list[str]:
        budget = min(self._config.tokens, self._room - self._length(context))
        while True:
            pieces = self._pieces(text, budget)
            read = [f"{context}\n\n{piece}" if context else piece for piece in pieces]
            if budget <= _LEAST or self._fits(read):
                return pieces
            budget = max(_LEAST, budget * 3 // 4)  # tokens of the parts did not add up to those of the whole

    def _pieces(self, text: str, budget: int) -> list[str]:
        overlap = min(self._config.overlap, budget // 2)
        size = budget - overlap
        total = self._length(text)
        if total <= size:
            return [text]
        even = math.ceil(total / math.ceil(total / size) * _UNEVEN)  # so that no short end is left over
        splitter = RecursiveCharacterTextSplitter(
            separators=_SEPARATORS,
            is_separator_regex=True,
            keep_separator="end",
            strip_whitespace=False,
            chunk_size=min(size, even),
            chunk_overlap=0,
            length_function=self._length,
        )
        return self._with_overlap(self._merge(splitter.split_text(text), size), overlap)

    def _merge(self, pieces: Sequence[str], size: int) -> list[str]:
        """Join neighbours that fit together: the splitter leaves short ends behind every long paragraph."""
        merged: list[str] = []
        length = 0
        for piece in pieces:
            own = self._length(piece)
            if merged and length + own <= size:
                merged[-1] += piece
                length += own
            else:
                merged.append(piece)
                length = own
        stripped = (piece.rstrip().strip("\n") for piece in merged)
        return [piece for piece in stripped if piece]

    def _with_overlap(self, pieces: list[str], most: int) -> list[str]:
        """Begin every piece but the first with the last words of the one before."""
        if not most:
            return pieces
        result = pieces[:1]
        for before, piece in pairwise(pieces):
            tail = ""
            for word in reversed(re.findall(r"\S+\s*", before)):
                if self._length(word + tail) > most:
                    break
                tail = word + tail
            result.append(f"{tail.rstrip()} {piece}" if tail else piece)
        return result

    def context(self, title: str, section: Section) -> str:
        """Title and heading path, shortened from the middle until it leaves room for the text."""
        path = section.path
        if path and section.text.startswith(path[-1]):
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

    def _length(self, text: str) -> int:
        text = text.strip()  # the white space of a cut belongs to neither side
        known = self._counts.get(text)
        return self._count_all([text])[0] if known is None else known

    def _count_all(self, texts: Iterable[str]) -> list[int]:
        """Count many texts in one call and remember; tokens the model adds are left out."""
        wanted = list(dict.fromkeys(text.strip() for text in texts))
        counted = self._embedder.count_tokens(wanted) if wanted else []
        lengths = [
            max(count - self._special, len(text) // _CHARACTERS_PER_TOKEN)
            for text, count in zip(wanted, counted, strict=True)
        ]
        self._counts.update(zip(wanted, lengths, strict=True))
        return lengths


def hash_text(text: str) -> str:
    """SHA-256 hex of what the model reads."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _chunk_id(url: str, text: str, repeat: int) -> str:
    return hashlib.sha256("\x00".join((url, text, str(repeat))).encode("utf-8", "replace")).hexdigest()[:32]


def _is_within(section: Section, other: Section) -> bool:
    return len(section.path) > len(other.path) and section.path[: len(other.path)] == other.path
