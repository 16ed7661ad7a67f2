"""A retriever whose answers the tests decide."""

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from msgspec.structs import replace

from embedder.config import Role
from embedder.late_interaction import QueryTokens
from indexer.generation.documents import DocumentFacts, document_id
from rag.access import Scope
from rag.errors import CollectionMissing, JobConflict, JobMissing, NotConfigured, NotReady, NotThere
from rag.messages import Changes, DocumentChange, Edit, SectionChange, Snapshot
from rag.query.request import Filter, SearchRequest
from rag.query.results import Answer, Explanation, Hit, ScorePart, Step, Suggestion, count_facets
from rag.serving.follower import QueryEmbedding
from tests.dummy import DummyCrossEncoder, DummyEmbedder

MODEL = "all-MiniLM-L6-v2"
CODE = """The example makes a table and asks it:

CREATE TABLE t (
    a integer,

    b text
);
SELECT a FROM t
    WHERE b = 'x';

And so it goes on in words, as before."""


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
        "scores": {"dense": 0.71843, "lexical": None, "tokens": None, "rerank": None},
        "language": None,
        "date": None,
        "content_type": "text/html",
        "metadata": {},
        "duplicates": [],
        "document": document_id(f"https://docs.example/indexes/{rank}"),
    }
    return Hit(**{**fields, **changes})


WHY = Explanation(
    rank=2,
    candidates=143,
    dense=ScorePart(score=0.7184, rank=3, scaled=0.62, weight=0.5),
    lexical=ScorePart(score=14.26, rank=1, scaled=1.0, weight=0.5),
    tokens=None,
    fused=0.81,
    weights="",
    steps=[Step(name="limit", why="not reranked", score=0.7695)],
    folded=1,
    left_out=2,
)


def document_of(hit: Hit) -> dict[str, Any]:
    passage = {"id": hit.id, "url": hit.url, "section": hit.section, "text": hit.text, "blocks": hit.blocks}
    shared = {name: getattr(hit, name) for name in ("url", "title", "language", "date", "content_type", "metadata")}
    moment = "2026-11-20T04:00:00Z"
    return {"id": hit.document, **shared, "source": "site", "fetched_at": moment, "passages": [passage]}


IDLE = ("lexical", "fuse", "rerank")  # stages that take no time here


CHANGES = Changes(
    collection="default",
    since=Snapshot("g0", "2026-11-20T04:00:00+00:00"),
    until=Snapshot("g1", "2026-11-27T04:00:00+00:00"),
    counts={"documents": 2, "rewritten": 1, "renamed": 1},
    noise=3,
    documents=[
        DocumentChange(
            "changed",
            "https://docs.example/set.html",
            "Settings",
            [
                SectionChange(
                    "rewritten", "Memory", "https://docs.example/set.html#m", (Edit("It is 4 MB.", "It is 8 <b>."),)
                )
            ],
        ),
        DocumentChange(
            "moved",
            "https://docs.example/new.html",
            "",
            [
                SectionChange(
                    "renamed", "Uno", "https://docs.example/new.html#u", (), "One", "https://docs.example/old.html#o"
                )
            ],
            "https://docs.example/old.html",
        ),
    ],
    available=[Snapshot("g1", "2026-11-27T04:00:00+00:00"), Snapshot("g0", "2026-11-20T04:00:00+00:00")],
)


class FakeRetriever:
    """Stands in for `LiveRetriever`; set `hits`, `error` or `ready` to steer it.

    Its first page is its last; `tests.web.running` has a real retriever.
    """

    def __init__(self) -> None:
        self.ready = True
        self.missing = False
        self.embedder = DummyEmbedder(dimension=8)
        self.rerank_model: str | None = None
        self.reason = "the index is still loading"
        self.hits: list[Hit] | Callable[[str], list[Hit]] = [make_hit()]
        self.error: Exception | None = None
        self.requests: list[SearchRequest] = []
        self.collections = ("default", "notes")
        self.closed = threading.Event()
        self.is_close = True
        self.asked_questions: list[str] = ["How is a table made?"]
        self.suggestions: list[Suggestion] = []
        self.typed: list[tuple[str, str, Filter | None, int]] = []
        self.did_you_mean: str | None = None
        self.found_changes = CHANGES

    def within(self, scope: Scope) -> "FakeRetriever":
        """Return a view of the collections of a scope."""
        view = copy(self)
        view.collections = tuple(filter(scope.has, self.collections))
        return view

    @property
    def calls(self) -> list[tuple[str, int, str]]:
        return [(request.query, request.k, request.mode) for request in self.requests]

    def status(self) -> dict[str, Any]:
        facts = {"generation": "g1", "documents": 1170, "chunks": 13402, "created_at": "2026-11-20T04:00:00Z"}
        others = {"generation": "g2", "documents": 3, "chunks": 17, "created_at": "2026-11-21T04:00:00Z"}
        return {
            "ready": self.ready,
            "reason": None if self.ready else self.reason,
            "missing": self.missing,
            "model": MODEL,
            **({"rerank_model": self.rerank_model} if self.rerank_model else {}),
            **facts,
            "collections": [
                {"name": name, "ready": self.ready, "reason": "", **(facts if name == "default" else others)}
                for name in self.collections
            ],
        }

    def search(self, request: SearchRequest, embedded: Any = None) -> Answer:
        self.requests.append(request)
        self._check(request.collection)
        hits = self.hits(request.query) if callable(self.hits) else self.hits
        found = (DocumentFacts(hit.url, "site", hit.language, hit.content_type) for hit in hits)
        return Answer(
            query=request.query,
            hits=[
                replace(hit, rank=place, collection=request.collection, explanation=WHY if request.explain else None)
                for place, hit in enumerate(hits[: request.k], 1)
            ],
            took_ms={"embed": 2.04, "dense": 0.71, **dict.fromkeys(IDLE, 0.0), "total": 3.12},
            generation="g1",
            facets=count_facets(found) if request.facets else None,
            close=self.is_close,
            did_you_mean=self.did_you_mean,
            collections=[request.collection],
        )

    def overview(self, collection: str = "default") -> dict[str, Any]:
        self._check(collection)
        return {"documents": len(self.hits), "created_at": "2026-11-20T04:00:00Z", "facets": {}}

    def describe(self, collection: str = "default") -> dict[str, Any]:
        self._check(collection)
        return {
            "generation": "g1",
            "created_at": "2026-11-20T04:00:00Z",
            "documents": 1170,
            "chunks": 13402,
            "sources": ["https://docs.example/"],
            "report": {},
            "fingerprint": {},
        }

    def changes(
        self, since: str | None, until: str | None = None, collection: str = "default", filter: Filter | None = None
    ) -> Changes:
        self._check(collection)
        return self.found_changes

    def embed(self, texts: Sequence[str], role: Role = "document", model: str = "") -> QueryEmbedding:
        self._check("default")
        if model not in {"", MODEL}:
            raise NotThere(f"there is no model {model!r} here; there are: {MODEL}", "model")
        tokens = sum(self.embedder.count_tokens(texts, role=role))
        return QueryEmbedding(self.embedder.encode(texts, role=role), tokens, MODEL)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        self._check("default")
        return self.embedder.encode_query_tokens(queries)

    def rerank(self, query: str, texts: Sequence[str]) -> tuple[list[float], int]:
        if self.rerank_model is None:
            raise NotConfigured("reranking is not configured here: set rerank_model")
        self._check("default")
        model = DummyCrossEncoder()
        rows = model.pairs(query, texts)
        return (1 / (1 + np.exp(-model.logits(rows)))).tolist(), sum(map(len, rows))

    def open_document(self, id: str, collection: str = "default") -> "FakeDocument":
        for document in self.documents(collection):
            if document.facts["id"] == id:
                return document
        raise NotThere(f"there is no document {id!r}")

    def open_around(self, chunk_id: str, collection: str = "default") -> "tuple[FakeDocument, int] | None":
        for document in self.documents(collection):
            for place, passage in enumerate(document.entry):
                if passage["id"] == chunk_id:
                    return document, place
        return None

    def questions(self, collection: str = "default") -> list[str]:
        self._check(collection)
        return self.asked_questions

    def suggest(
        self, typed: str, collection: str = "default", filter: Filter | None = None, limit: int = 6
    ) -> list[Suggestion]:
        self.typed.append((typed, collection, filter, limit))
        self._check(collection)
        return [each for each in self.suggestions if typed.lower() in each.text.lower()][:limit]

    def documents(self, collection: str = "default") -> "Iterator[FakeDocument]":
        self._check(collection)
        hits = self.hits("") if callable(self.hits) else self.hits
        return (FakeDocument(self.document_of(hit)) for hit in hits)

    def document_of(self, hit: Hit) -> dict[str, Any]:
        """Return the document that a hit is of, with its passages."""
        return document_of(hit)

    def _check(self, collection: str) -> None:
        if collection not in self.collections:
            raise CollectionMissing(collection, self.collections)
        if not self.ready:
            raise NotReady(self.reason)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed.set()


class FakeDocument:
    """Stands in for `OpenDocument`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.entry: list[dict[str, Any]] = document.pop("passages")
        self.facts = {"generation": "g1", **document}
        self.count = len(self.entry)

    def passages(self, start: int, stop: int) -> list[dict[str, Any]]:
        return self.entry[start:stop]

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        yield self.entry


class FakeJobs:
    """Stands in for `JobManager`; jobs run until they are cancelled."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}

    def start(self, collection: str = "default", *, full: bool = False) -> dict[str, Any]:
        if any(job["state"] == "running" for job in self.jobs.values()):
            raise JobConflict("a job is under way")
        job_id = f"20261121T000000-{len(self.jobs):06x}"
        made = {"id": job_id, "created_at": "2026-11-21T00:00:00Z", "collection": collection, "full": full}
        self.jobs[job_id] = made | dict.fromkeys(("ended_at", "report", "error")) | {"state": "running"}
        return self.jobs[job_id]

    def all(self) -> list[dict[str, Any]]:
        return list(reversed(self.jobs.values()))

    def get(self, job_id: str) -> dict[str, Any]:
        if job_id not in self.jobs:
            raise JobMissing(job_id)
        return self.jobs[job_id]

    def cancel(self, job_id: str) -> dict[str, Any]:
        job = self.get(job_id)
        if job["state"] != "running":
            raise JobConflict(f"job {job_id} has ended")
        job["state"] = "cancelled"
        return job
