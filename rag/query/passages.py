"""Hits as other programs take them: a text, and what is known of it. Shared by the adapters for frameworks."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rag.query.request import SearchRequest
from rag.query.results import Answer, Hit, Relevance


class Searcher(Protocol):
    """Answers searches: `rag.Client`, or `rag.serving.live.LiveRetriever` in the same process."""

    def search(self, query: SearchRequest) -> Answer:
        """Return the passages that answer best."""


class Ranker(Protocol):
    """Says how well texts answer a query: `rag.Client`, or `LocalRanker` in the same process."""

    def rerank(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        """Return a score from 0 to 1 for each text, (n,)."""


class LocalRanker:
    """A retriever in this process, such as `rag.serving.live.LiveRetriever`, as a `Ranker`."""

    def __init__(self, retriever: Any) -> None:
        self._retriever = retriever

    def rerank(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        """Return a score from 0 to 1 for each text, (n,)."""
        found: Relevance = self._retriever.rerank(query, texts)
        return found.scores


def best_of(ranker: Ranker, query: str, texts: Sequence[str], most: int | None) -> list[tuple[int, float]]:
    """Return the places and scores of the best texts, best first; all of them unless `most` says how many."""
    scores = ranker.rerank(query, texts)
    return [(place, float(scores[place])) for place in np.argsort(-scores, kind="stable")[:most].tolist()]


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
