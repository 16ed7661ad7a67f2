"""Headings of an index that a reader could search for: what the start page of a search offers, and what is suggested.

Those of the start page are told by their grammar: questions come first, then tasks, then plain phrases. A heading that
several documents have, such as "Reporting bugs", belongs to the site rather than to a subject, and is never offered
there.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from indexer.generation.lexical.analysis import fold
from indexer.generation.lexical.headings import Heading
from indexer.records import SEPARATOR
from indexer.stores.store import Searchable
from rag.query.results import Suggestion

_FEWEST_TYPED, _MOST_TYPED = 2, 200  # characters; a longer text is no search for a heading
SAMPLED = 1000  # passages, from all over the index
OFFERED = 12
_SHORTEST, _LONGEST = 2, 9  # words
_MOST_CHARACTERS = 70
_NUMBER = re.compile(
    r"(?:(?:chapter|part|appendix|section)\s+(?:\d+|[A-Z]|[IVX]+)\b|\d+(?=[\s.):])|[A-Z](?=[.):]))(?:\.\d+)*[.):]?\s+",
    re.IGNORECASE,
)
_CODE = re.compile(r"[_(){}\[\]<>=\\/|@#$%^*~`\"“”]|::|\.\w|\d{3}|--")
_AUXILIARY = "is|are|was|do|does|did|can|could|should|will|would|has|have|must|may"
_QUESTION = re.compile(rf"(?:how|why|when|what|which|where|who)\s(?:{_AUXILIARY})\s", re.IGNORECASE)
_TO_DO = re.compile(r"(?:how|when|what|which|where)\sto\s\S+\s", re.IGNORECASE)
# a verb that names what is done; "string" and "ring" have no vowel before their end
_DOING = re.compile(r"[^\W\d_]*[aeiouy][^\W\d_]*ing\s", re.IGNORECASE)
# an imperative and the article of its object, "Read the sources again"; never a preposition, "On the command line"
_DETERMINERS = "the|a|an|your|all|each|every|another|more|multiple|their"
_NO_VERBS = (
    "a|about|above|across|after|against|all|along|among|an|and|around|as|at|before|behind|below|beneath|beside|between|"
    "beyond|but|by|despite|during|each|except|for|from|how|if|in|inside|into|is|its|like|near|no|not|of|off|on|once|or|"
    "out|outside|over|past|per|see|since|some|than|that|the|this|though|through|to|toward|towards|under|unless|until|up|"
    "upon|versus|via|what|when|where|whether|which|while|who|why|with|within|without|your"
)
_DO = re.compile(rf"(?!(?:{_NO_VERBS})\s)[^\W\d_]*[^\W\d_s]\s(?:{_DETERMINERS})\s", re.IGNORECASE)
_POINTS = re.compile(r"\b(?:it|its|them|they|this|these|those)\b", re.IGNORECASE)  # at what stands elsewhere
_PHRASE = 3  # words of a task or a plain phrase, at least; fewer say too little
_FULL = 4  # words of a question

Named = tuple[str, str]  # document, heading


def sample_headings(generation: Searchable) -> list[str]:
    """Return the headings of a generation that are worth asking for, from all over it, best first."""
    count = generation.manifest.counts.chunks
    rows = np.unique(np.linspace(0, max(0, count - 1), min(count, SAMPLED)).astype(np.int64))
    found: list[Named] = []
    for chunk in generation.chunks(rows):
        found += [(chunk.document_url, chunk.section.split(SEPARATOR)[-1]), (chunk.document_url, chunk.title)]
    return worth_asking(found)


def worth_asking(names: Iterable[Named]) -> list[str]:
    """Return headings that are questions, then tasks, then phrases; of as many documents as there are."""
    documents: dict[str, set[str]] = {}
    spelled: dict[str, str] = {}
    for document, name in names:
        if plain := _plain(name):
            documents.setdefault(plain.casefold(), set()).add(document)
            spelled.setdefault(plain.casefold(), plain)
    candidates = [(_rank(spelled[key]), key) for key, where in documents.items() if len(where) == 1]
    random.Random(len(candidates)).shuffle(candidates)  # noqa: S311  # neighbours are alike
    candidates.sort(key=lambda candidate: candidate[0])
    taken = Counter[str]()
    turns = []
    for rank, key in candidates:
        [document] = documents[key]
        taken[document] += 1
        turns.append((taken[document], rank, key))
    return [spelled[key] for _, _, key in sorted(turns, key=lambda turn: turn[:2])][:OFFERED]


def without_number(name: str) -> str:
    """Return a heading without its number, "4.2. Vacuum", unless it is nothing else."""
    plain = " ".join(name.split())
    return _NUMBER.sub("", plain, count=1) or plain


def is_suggested_for(typed: str) -> bool:
    """Return whether there can be suggestions for what is typed: neither too little nor too much."""
    return len(typed.strip()) >= _FEWEST_TYPED and len(typed) <= _MOST_TYPED


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


def _plain(name: str) -> str | None:
    """A heading without its number, as a question if it is one; None where it is no phrase or has too many words."""
    plain = _NUMBER.sub("", " ".join(name.split()).rstrip(":"), count=1)
    words = plain.split()
    if not _SHORTEST <= len(words) <= _LONGEST or len(plain) > _MOST_CHARACTERS:
        return None
    if _CODE.search(plain) or _POINTS.search(plain):
        return None
    if plain.endswith("?") or not plain[-1].isalnum():
        return plain if plain.endswith("?") else None
    if _QUESTION.match(plain):
        return f"{plain}?"
    is_task = any(kind.match(plain) for kind in (_TO_DO, _DOING, _DO))
    return plain if is_task or (len(words) >= _PHRASE and any(word[0].islower() for word in words)) else None


def _rank(plain: str) -> int:
    """0 for a question or how something is done, 1 for a task, 2 for any other phrase."""
    words = len(plain.split())
    if words >= _FULL and (plain.endswith("?") or _TO_DO.match(plain)):
        return 0
    return 1 if words >= _PHRASE and (plain.endswith("?") or _DOING.match(plain) or _DO.match(plain)) else 2
