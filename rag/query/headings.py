"""Headings of an index that a reader could search for: questions for a start page, and suggestions."""

import re
from collections.abc import Iterable

import numpy as np

from indexer.generation.lexical.analysis import fold
from indexer.generation.lexical.vocabulary import Heading
from indexer.records import SEPARATOR
from indexer.stores.store import Searchable
from rag.query.results import Suggestion

FEWEST_TYPED, MOST_TYPED = 2, 200  # characters; a longer text is no search for a heading
SAMPLED = 1000  # passages, from all over the index
OFFERED = 4
_LONGEST = 70  # characters of a question
_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section)\s+(?:\d+|[A-Z]|[IVX]+)\b|(?<![\d.])\d++(?=[\s.):])|[A-Z](?=[.):]))(?:\.\d++)*+[.):]?\s+",
    re.IGNORECASE,
)


def sample_questions(generation: Searchable) -> list[str]:
    """Return headings that are questions, from all over a generation, one of each document."""
    count = generation.manifest.counts.chunks
    rows = np.unique(np.linspace(0, max(0, count - 1), min(count, SAMPLED)).astype(np.int64))
    found: dict[str, str] = {}
    for chunk in generation.chunks(rows):
        for name in (chunk.section.split(SEPARATOR)[-1], chunk.title):
            if name.endswith("?") and len(name) <= _LONGEST:
                found.setdefault(chunk.document_url, without_number(name))
    questions = list(dict.fromkeys(found.values()))
    return questions[:: max(1, len(questions) // OFFERED)][:OFFERED]


def without_number(name: str) -> str:
    """Return a heading without its number, "4.2. Vacuum", unless it is nothing else."""
    plain = " ".join(name.split())
    return _NUMBER.sub("", plain, count=1) or plain


def suggestions(typed: str, headings: Iterable[Heading], most: int) -> list[Suggestion]:
    """Return headings as suggestions, each text once, without what is typed already."""
    known = {fold(" ".join(typed.split()))}
    found = []
    for heading in headings:
        text = without_number(heading.text)
        if (key := fold(text)) not in known:
            known.add(key)
            found.append(Suggestion(text, "title" if heading.is_title else "heading"))
    return found[:most]
