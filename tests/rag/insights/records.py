"""Searches and feedback as the recorder hands them over."""

import time
from typing import Any

from rag.insights.callers import DAY_S as DAY_S
from rag.insights.events import Feedback, Searched, SearchId, Shown
from rag.query.results import Answer
from rag.serving.scope import EVERYTHING, Scope
from tests.web.fakes import make_hit


def answer(query: str, hits: int = 2, *, close: bool = True, ms: float = 3.0) -> Answer:
    found = [make_hit(rank) for rank in range(1, hits + 1)]
    return Answer(query=query, hits=found, took_ms={"total": ms}, generation="g1", close=close)


def searched(query: str, *, at: float | None = None, **changes: Any) -> Searched:
    found = answer(query, **{name: changes.pop(name) for name in ("hits", "close", "ms") if name in changes})
    fields: dict[str, Any] = {
        "id": SearchId.new(time.time() if at is None else at),
        "query": found.query,
        "shown": tuple(map(Shown.of, found.hits)),
        "close": found.close,
        "ms": found.took_ms["total"],
        "collection": "default",
        "mode": "hybrid",
        "via": "page",
        "who": "key one",
        "scope": EVERYTHING,
        "seen": True,
    }
    return Searched(**{**fields, **changes})


def told(search: Searched, what: Any, rank: int = 1, scope: Scope = EVERYTHING) -> Feedback:
    return Feedback(search.id, what, "" if what == "seen" else f"chunk-{rank}", scope)
