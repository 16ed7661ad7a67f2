"""Hits as other programs take them, and who finds and ranks them: what the adapters for frameworks share."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rag.query.request import SearchRequest
from rag.query.results import Answer, Hit


class Searcher(Protocol):
    """Answers searches: `rag.Client`, or `rag.serving.live.LiveRetriever` in the same process."""

    def search(self, query: SearchRequest) -> Answer:
        """Return the passages that answer best."""


class Ranker(Protocol):
    """Says how well texts answer a query, as `rag.Client` does."""

    def rerank(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        """Return a score from 0 to 1 for each text, (n,)."""


def best_of(ranker: Ranker, query: str, texts: Sequence[str], most: int | None) -> list[tuple[int, float]]:
    """Return the places and scores of the best texts, best first; all of them unless `most` says how many."""
    scores = ranker.rerank(query, texts)
    return [(place, float(scores[place])) for place in np.argsort(-scores, kind="stable")[:most].tolist()]


def metadata_of(hit: Hit) -> dict[str, Any]:
    """Return the facts of a passage; the author's own metadata keep their names where these are free."""
    names = ("title", "section", "document", "score", "language", "date", "content_type")
    known = {"source": hit.url, **{name: getattr(hit, name) for name in names}}  # frameworks cite `source`
    return {**hit.metadata, **{name: value for name, value in known.items() if value is not None}}
