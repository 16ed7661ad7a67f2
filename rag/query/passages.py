"""Hits as other programs take them: a text, and what is known of it. Shared by the adapters for frameworks."""

from typing import Any, Protocol

from rag.query.request import SearchRequest
from rag.query.results import Answer, Hit


class Searcher(Protocol):
    """Answers searches: `rag.Client`, or `rag.serving.live.LiveRetriever` in the same process."""

    def search(self, query: SearchRequest) -> Answer:
        """Return the passages that answer best."""


def text_of(hit: Hit) -> str:
    """The passage, with those around it in its section where these were asked for."""
    return hit.section_text or hit.text


def metadata_of(hit: Hit) -> dict[str, Any]:
    """Return the facts of a passage; the author's own metadata keep their names where these are free."""
    known = {
        "source": hit.url,  # the name under which frameworks look for what to cite
        "title": hit.title,
        "section": hit.section,
        "document": hit.document,
        "score": hit.score,
        "language": hit.language,
        "date": hit.date,
        "content_type": hit.content_type,
    }
    return {**hit.metadata, **{name: value for name, value in known.items() if value is not None}}
