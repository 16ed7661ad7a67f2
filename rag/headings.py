"""Headings of an index that a reader could search for: what the start page of a search offers."""

import re
from collections.abc import Iterable

import numpy as np

from indexer.records import SEPARATOR
from indexer.store import Searchable

SAMPLED = 240  # passages, from all over the index
_NUMBER = re.compile(r"(?:(?:chapter|part|appendix|section)\s+)?(?:\d+|[A-Z]|[IVX]+)(?:\.\d+)*[.):]?\s+", re.IGNORECASE)
_CODE = re.compile(r"[_(){}\[\]<>=\\/|@#$%^*~`\"“”]|::|\.\w|\d{3}")
_ASKING = re.compile(r"(?:how|why|when|what|which|where|who|can|should|is|are|does|do)\s", re.IGNORECASE)
_SHORTEST, _LONGEST = 2, 9  # words
_MOST_CHARACTERS = 70


def sample_headings(generation: Searchable) -> list[str]:
    """Return headings from all over a generation that read as questions, then others, each once."""
    count = generation.chunk_count
    rows = np.unique(np.linspace(0, max(0, count - 1), min(count, SAMPLED)).astype(np.int64))
    chunks = generation.chunks(rows)
    return worth_asking(name for chunk in chunks for name in (chunk.section.split(SEPARATOR)[-1], chunk.title))


def worth_asking(names: Iterable[str]) -> list[str]:
    """Return names that read as questions, then others of a few plain words; without numbers, each once."""
    questions: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in names:
        plain = " ".join(name.split())
        plain = _NUMBER.sub("", plain, count=1) if _NUMBER.match(plain) and not _ASKING.match(plain) else plain
        words = plain.split()
        if not _SHORTEST <= len(words) <= _LONGEST or len(plain) > _MOST_CHARACTERS or _CODE.search(plain):
            continue
        if plain.endswith("?") or (_ASKING.match(plain) and len(words) > _SHORTEST):
            questions.setdefault(plain.casefold(), plain if plain.endswith("?") else f"{plain}?")
        elif any(word[0].islower() for word in words) or len(words) > _SHORTEST:
            others.setdefault(plain.casefold(), plain)
    return [*questions.values(), *others.values()]
