"""Provide real text for benchmarks: any folder that can be indexed, or Python's language reference."""

import pydoc_data.topics
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from embedder.text_embedder import Embedder
from indexer.config import CHUNK_TOKENS, CrawlLimits
from indexer.cut.chunking import Chunker
from indexer.errors import ParseError
from indexer.read.document_reader import read_document
from indexer.records import Page
from indexer.sources.reading import Reading, read_sources

SHORT_PASSAGE_WORDS = 40


def write_reference(folder: Path) -> Path:
    """Write Python's built-in language reference to a folder, one text file for each topic."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in sorted(pydoc_data.topics.topics.items()):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def read_chunks(source: Path, count: int, embedder: Embedder) -> list[str]:
    """Split the documents in a folder as for an index, and return up to `count` passages."""
    chunker = Chunker(embedder, CHUNK_TOKENS)
    texts: list[str] = []
    for page in read_sources([str(source)], Reading(CrawlLimits())):
        if not isinstance(page, Page):
            continue
        try:
            texts += [chunk.embedded_text for chunk in chunker.split(read_document(page))]
        except ParseError:
            continue
        if len(texts) >= count:
            break
    return texts[:count]


def short_passages(texts: Sequence[str], count: int, max_words: int = SHORT_PASSAGE_WORDS) -> list[str]:
    """Return `count` different passages: the first `max_words` words of each text, then combinations of two texts."""
    words = [text.split()[:max_words] for text in texts]
    half = max_words // 2
    passages = dict.fromkeys(" ".join(passage) for passage in words)
    for distance in range(1, len(words)):
        for i, first in enumerate(words):
            if len(passages) >= count:
                return list(passages)[:count]
            passages[" ".join(first[:half] + words[(i + distance) % len(words)][half:])] = None
    return list(passages)[:count]


def write_folder(texts: Sequence[str], folder: Path) -> Path:
    """Write each passage to a separate text file in a new folder."""
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / f"{number:06d}.txt").write_text(text, encoding="utf-8")
    return folder


def texts_of_length(tokenizer: tokenizers.Tokenizer, texts: Sequence[str], length: int, count: int) -> list[str]:
    """Truncate real texts to exactly `length` tokens, including special tokens. Returns `count` different texts.

    Raises ValueError if there are too few long texts.
    """
    beginnings: dict[str, None] = {}
    for text in texts:
        encoding = tokenizer.encode(text)
        for last in range(length - 3, length + 1):  # truncation within a word may change its tokens
            if last >= len(encoding.ids) - 1:
                break
            cut = text[: encoding.offsets[last][1]]
            if len(tokenizer.encode(cut).ids) == length:
                beginnings[cut] = None
                break
        if len(beginnings) == count:
            return list(beginnings)
    raise ValueError(
        f"the source has {len(beginnings)} passages of {length} tokens, not {count}: give a larger --source"
    )
