"""Hits as other programs take them: a text, and what is known of it. Shared by the adapters for frameworks."""

from typing import Any, Protocol

from rag.query.filters import Filter
from rag.query.results import Answer, Hit


class Searcher(Protocol):
    """What answers searches: `rag.Client`, or `rag.live.live.LiveRetriever` in the same process."""

    def search(
        self,
        query: str,
        *,
        k: int = ...,
        mode: str = ...,
        filter: Filter | None = ...,
        collection: str = ...,
        per_document: int | None = ...,
    ) -> Answer:
        """Return the k best passages."""


def text_of(hit: Hit) -> str:
    """The passage, with those around it in its section where these were asked for."""
    return hit.section_text or hit.text


def metadata_of(hit: Hit) -> dict[str, Any]:
    """What is known of a passage; the author's own metadata keep their names where these are free."""
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
