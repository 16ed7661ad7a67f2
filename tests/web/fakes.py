"""A retriever whose answers the tests decide."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rag.errors import CollectionMissing, NotReady
from rag.filters import Filter
from rag.results import Answer, Hit


@dataclass(frozen=True)
class FakeSettings:
    max_k: int = 100
    max_query_chars: int = 10_000


def make_hit(rank: int = 1, **changes: Any) -> Hit:
    fields: dict[str, Any] = {
        "rank": rank,
        "id": f"chunk-{rank}",
        "url": f"https://docs.example/indexes/partial.html#part-{rank}",
        "title": "Partial Indexes",
        "section": "Indexes › Partial Indexes",
        "text": "A partial index is an index built over a subset of a table.",
        "highlights": [(2, 9), (10, 15)],
        "score": 0.71843,
        "scores": {"dense": 0.71843, "lexical": None},
        "language": None,
        "date": None,
        "content_type": "text/html",
        "metadata": {},
        "duplicates": [],
    }
    return Hit(**{**fields, **changes})


class FakeRetriever:
    """Satisfies `web.retriever.Retriever`; set `answers`, `error` or `ready` to steer it."""

    def __init__(self) -> None:
        self.ready = True
        self.reason = "the index is still loading"
        self.hits: list[Hit] | Callable[[str], list[Hit]] = [make_hit()]
        self.error: Exception | None = None
        self.calls: list[tuple[str, int, str]] = []
        self.collections = ("default", "notes")
        self.narrowed: list[dict[str, Any]] = []  # the other arguments of each call
        self.closed = threading.Event()

    def status(self) -> dict[str, Any]:
        facts = {"generation": "g1", "model": "all-MiniLM-L6-v2", "documents": 1170, "chunks": 13402}
        return {
            "ready": self.ready,
            "reason": None if self.ready else self.reason,
            **facts,
            "created_at": "2026-11-20T04:00:00Z",
        }

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        mode: str = "hybrid",
        filter: Filter | None = None,
        collection: str = "default",
        per_document: int | None = None,
        diversity: float = 0.0,
        expand: str | None = None,
    ) -> Answer:
        self.calls.append((query, k, mode))
        self.narrowed.append(
            {
                "filter": filter,
                "collection": collection,
                "per_document": per_document,
                "diversity": diversity,
                "expand": expand,
            }
        )
        if collection not in self.collections:
            raise CollectionMissing(collection, self.collections)
        if not self.ready:
            raise NotReady(self.reason)
        if self.error is not None:
            raise self.error
        hits = self.hits(query) if callable(self.hits) else self.hits
        took = {"embed": 2.04, "dense": 0.71, "lexical": 0.0, "fuse": 0.0, "total": 3.12}
        return Answer(query=query, hits=hits[:k], took_ms=took, generation="g1")

    def close(self) -> None:
        self.closed.set()
