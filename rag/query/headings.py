"""Headings as queries: suggestions for typed text, and questions for a start page."""

import re
from collections.abc import Iterable

from indexer.generation.documents import StoredChunk
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.vocabulary import Heading
from indexer.records import SEPARATOR
from rag.query.results import Suggestion

MIN_TYPED_CHARS, MAX_TYPED_CHARS = 2, 200
_MAX_QUESTIONS, _MAX_QUESTION_CHARS = 4, 70
_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section)\s+(?:\d+|[A-Z]|[IVX]+)\b|(?<![\d.])\d++(?=[\s.):])|[A-Z](?=[.):]))(?:\.\d++)*+[.):]?\s+",
    re.IGNORECASE,
)


def without_number(name: str) -> str:
    """Return a heading without its number, such as "4.2.", unless it is only a number."""
    plain = " ".join(name.split())
    return _NUMBER.sub("", plain, count=1) or plain


def suggestions(typed: str, headings: Iterable[Heading], limit: int) -> list[Suggestion]:
    """Return headings as distinct suggestions, except for the typed text itself."""
    by_text: dict[str, Suggestion] = {}
    for heading in headings:
        text = without_number(heading.text)
        by_text.setdefault(fold(text), Suggestion(text, "title" if heading.is_title else "heading"))
    by_text.pop(fold(" ".join(typed.split())), None)
    return list(by_text.values())[:limit]


def questions_among(passages: Iterable[StoredChunk]) -> list[str]:
    """Return at most four headings that are questions, one per document, spread evenly over the passages."""
    by_document: dict[str, str] = {}
    for passage in passages:
        for name in (passage.section.split(SEPARATOR)[-1], passage.title):
            if name.endswith("?") and len(name) <= _MAX_QUESTION_CHARS:
                by_document.setdefault(passage.document_url, without_number(name))
    questions = list(dict.fromkeys(by_document.values()))
    return questions[:: max(1, len(questions) // _MAX_QUESTIONS)][:_MAX_QUESTIONS]
