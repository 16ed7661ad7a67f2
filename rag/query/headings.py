"""Headings of an index that a reader could search for: what the start page of a search offers, and what is suggested.

On the start page, questions come first, then phrases. A heading that several documents have, such as "Reporting bugs",
belongs to the site rather than to a subject, and is never offered there.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from indexer.generation.lexical.analysis import fold
from indexer.generation.lexical.vocabulary import Heading
from indexer.records import SEPARATOR
from indexer.stores.store import Searchable
from rag.query.results import Suggestion

FEWEST_TYPED, MOST_TYPED = 2, 200  # characters; a longer text is no search for a heading
SAMPLED = 1000  # passages, from all over the index
OFFERED = 12
_SHORTEST, _LONGEST = 3, 9  # words
_MOST_CHARACTERS = 70
_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section)\s+(?:\d+|[A-Z]|[IVX]+)\b|(?<![\d.])\d++(?=[\s.):])|[A-Z](?=[.):]))(?:\.\d++)*+[.):]?\s+",
    re.IGNORECASE,
)
_CODE = re.compile(r"[_(){}\[\]<>=\\/|@#$%^*~`\"“”]|::|\.\w|\d{3}|--")
_QUESTION = re.compile(r"(?:how|why|when|what|which|where|who)\s", re.IGNORECASE)
_POINTS = re.compile(r"\b(?:it|its|them|they|this|these|those)\b", re.IGNORECASE)  # at what stands elsewhere


def sample_headings(generation: Searchable) -> list[str]:
    """Return headings of a generation, questions before phrases, of as many documents as there are."""
    count = generation.manifest.counts.chunks
    rows = np.unique(np.linspace(0, max(0, count - 1), min(count, SAMPLED)).astype(np.int64))
    documents: dict[str, set[str]] = {}  # by heading
    for chunk in generation.chunks(rows):
        for name in (chunk.section.split(SEPARATOR)[-1], chunk.title):
            plain = without_number(name).rstrip(":")
            is_short = _SHORTEST <= len(plain.split()) <= _LONGEST and len(plain) <= _MOST_CHARACTERS
            ends_well = plain.endswith("?") or plain[-1:].isalnum()
            if is_short and ends_well and not _CODE.search(plain) and not _POINTS.search(plain):
                documents.setdefault(plain, set()).add(chunk.document_url)
    candidates = [heading for heading, where in documents.items() if len(where) == 1]
    random.Random(len(candidates)).shuffle(candidates)  # noqa: S311  # neighbours are alike
    candidates.sort(key=lambda heading: not (heading.endswith("?") or _QUESTION.match(heading)))
    taken, turns = Counter[str](), {}
    for heading in candidates:
        [document] = documents[heading]
        turns[heading] = taken[document]
        taken[document] += 1
    return sorted(candidates, key=turns.__getitem__)[:OFFERED]


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
