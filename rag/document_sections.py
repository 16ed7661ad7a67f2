"""A document's passages by the headings that they stand under, each text in them once."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from indexer.generation.overlap import once

Section = tuple[str, list[dict[str, Any]]]  # heading path, and passages


def by_section(document: Mapping[str, Any], settings: Mapping[str, Any], whole: str = "") -> Iterator[Section]:
    """Yield the sections of a document, in reading order.

    Args:
        document: as `LiveRetriever.document` gives it.
        settings: those of its build.
        whole: id of a passage that keeps its text. What others share with the one before is left out of the later one.
    """
    for name, group in groupby(document["passages"], key=lambda passage: str(passage["section"])):
        passages = list(group)
        kept = next((place for place, passage in enumerate(passages) if passage["id"] == whole), None)
        texts = once([passage["text"] for passage in passages], settings, kept)
        yield name, [passage | {"text": text} for passage, text in zip(passages, texts, strict=True) if text]
