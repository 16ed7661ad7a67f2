"""Answers from the index as it is now: searches, documents, headings, and texts of callers for the models."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from embedder.config import Role
from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from indexer.errors import IndexCorrupt, IndexMissing, StoreError
from indexer.filter import EachFilter, Filter
from indexer.generation.documents import StoredChunk as StoredChunk  # for packages that may not look below this one
from indexer.generation.manifest import DEFAULT
from indexer.versions import edition_at
from rag import deadline
from rag.errors import CollectionMissing, NotConfigured, NotReady, NotThere
from rag.query.request import ALL, SUGGESTED, SearchRequest, in_force, names_of
from rag.query.results import Answer, Suggestion, count_facets
from rag.query.retriever import FEWEST_TYPED, MOST_TYPED, Retriever, suggestions
from rag.query.served_model import Embedding, ServedModel
from rag.serving.access import EVERYTHING, Scope
from rag.serving.follower import LOADING, Follower, ServedCollection, facts_of

Found = TypeVar("Found")
Matches = Callable[[bytes], object]  # whether a text matches, or texts with line breaks between them, one of which does

_PACK, _UNPACK = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Answer).decode
LOADING_SECONDS = 20.0  # that a query waits for a process that has just been started


class LiveRetriever(Follower):
    """Answers from the live generation of every collection. A query keeps the generation it started with."""

    @property
    def ready(self) -> bool:
        """Whether queries to at least one collection are answered."""
        return any(each.retriever and not each.away for each in self.collections.values())

    def status(self) -> dict[str, Any]:
        """Return what is being served, JSON-ready.

        `reason` says what is wrong with the default collection, or still to come, and is else empty; `missing` is
        whether nothing was ever built there; `generation`, `created_at`, `documents` and `chunks` are there where it
        is served. `collections` says the same of each.
        """
        collections, settings, model = self.collections, self.settings, self.model
        first = collections.get(DEFAULT) or next(iter(collections.values()))
        plan = getattr(model.embedder, "plan", None) if model else None
        return {
            "ready": self.ready,
            "reason": first.reason,
            "missing": first.missing,
            "model": settings.model,
            "engine": plan.engine if plan else settings.engine,
            "precision": plan.precision if plan else settings.precision,
            "query_precision": plan.queries.precision if plan else settings.query_precision,
            **({"dimension": model.embedder.dimension} if model else {}),
            **({"rerank_model": settings.rerank_model} if settings.rerank_model else {}),
            **(first.facts() if DEFAULT in collections else {}),
            "collections": [
                {"name": name, "ready": bool(each.retriever and not each.away), "reason": each.reason, **each.facts()}
                for name, each in collections.items()
            ],
        }

    def describe(self, collection: str = DEFAULT) -> dict[str, Any]:
        """Return what the generation served is and how it was built, JSON-ready. Raises as `search` does."""
        manifest = self._ask(collection, lambda retriever: retriever.generation.manifest)
        built = {"sources": manifest.sources, "report": manifest.report, "fingerprint": manifest.fingerprint}
        return facts_of(manifest) | built

    def search(self, request: SearchRequest, embedded: QueryTokens | None = None, scope: Scope = EVERYTHING) -> Answer:
        """Answer from the live generation of a collection, or of several within a scope; see `Retriever.answer_query`.

        A query that comes while the process is starting waits: with several workers, another may already be serving,
        and would have answered. Raises QueryError, CollectionMissing, NotReady or DeadlinePassed.
        """
        if request.collections is not None:
            return self._search_several(request, embedded, scope)
        return self._ask(request.collection, lambda retriever: self._answer(retriever, request, embedded))

    def embed(self, texts: Sequence[str], role: Role = "document", model: str = "") -> Embedding:
        """Embed texts; see `ServedModel.embed`. Raises NotThere, NotReady or DeadlinePassed."""
        return self._model().embed(texts, role, model)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens, as `search` takes them. Raises as `embed` does."""
        return self._model().embed_queries(queries)

    def rerank(self, query: str, texts: Sequence[str]) -> tuple[list[float], int]:
        """Score how well each text answers a query, from 0 to 1, after all searches that wait; count their tokens."""
        self._model()
        if self.reranker is None:
            raise NotConfigured("reranking is not configured here: set rerank_model")
        rows = self.reranker.model.pairs(query, texts)
        scores = 1 / (1 + np.exp(-self.reranker.score(rows).astype(np.float64)))
        return scores.tolist(), sum(map(len, rows))

    def document(self, id: str, collection: str = DEFAULT, filter: Filter | None = None) -> dict[str, Any]:
        """Return a document that a filter allows with its passages, JSON-ready. Raises NotThere."""

        def look(retriever: Retriever) -> dict[str, Any] | None:
            generation = retriever.generation
            return next(generation.documents(in_force(filter, generation.manifest), id), None)

        found = self._ask(collection, look)
        if found is None:
            raise NotThere(f"there is no document {id[:80]!r} in collection {collection!r}")
        return found

    def questions(self, collection: str = DEFAULT) -> list[str]:
        """Return headings of the index that are questions. Raises as `search` does."""
        return self._ask(collection, lambda retriever: retriever.questions)

    def suggest(
        self, typed: str, collection: str = DEFAULT, filter: Filter | None = None, most: int = SUGGESTED
    ) -> list[Suggestion]:
        """Return titles and headings with what is typed, of documents that a filter allows. Raises as `search` does."""
        if len(typed.strip()) < FEWEST_TYPED or len(typed) > MOST_TYPED:
            return []

        def look(retriever: Retriever) -> list[Suggestion]:
            generation = retriever.generation
            headings = generation.suggest(typed, most + 1, in_force(filter, generation.manifest))
            return suggestions(typed, headings, most)

        return self._ask(collection, look)

    def grep(
        self, matches: Matches, collection: str = DEFAULT, filter: Filter | None = None, most: int = 100
    ) -> tuple[int, list[StoredChunk]]:
        """Count the passages that match, of those that a filter allows, and return some. Raises as `search` does."""

        def look(retriever: Retriever) -> tuple[int, list[StoredChunk]]:
            generation, rows = retriever.generation, []
            for part in generation.scan(in_force(filter, generation.manifest)):
                deadline.check()
                if matches(b"\n".join([text for _, text in part])):
                    rows += [row for row, text in part if matches(text)]
            return len(rows), generation.chunks(np.array(rows[:most], np.int64))

        return self._ask(collection, look)

    def overview(self, collection: str = DEFAULT, filter: Filter | None = None) -> dict[str, Any]:
        """Return the number, the time and the facets of the documents that a filter allows. Raises as `search` does."""

        def look(retriever: Retriever) -> dict[str, Any]:
            generation = retriever.generation
            manifest = generation.manifest
            facts = generation.survey(in_force(filter, manifest))
            editions = (edition_at(each.url, each.source, manifest.versions) for each in facts)
            facets = count_facets(facts, [edition.version for edition in editions if edition])
            return {"documents": len(facts), "created_at": manifest.created_at, "facets": facets}

        return self._ask(collection, look)

    def documents(self, collection: str = DEFAULT, filter: Filter | None = None) -> Iterator[dict[str, Any]]:
        """Return every document of the generation that is live now and that a filter allows, as `document` does."""

        def begin(retriever: Retriever) -> Iterator[dict[str, Any]]:
            generation = retriever.generation
            documents = generation.documents(in_force(filter, generation.manifest))
            first = next(documents, None)  # what cannot be read at all is told before an answer begins
            return documents if first is None else chain([first], documents)

        return self._ask(collection, begin)

    def _ask(self, collection: str, ask: Callable[[Retriever], Found]) -> Found:
        """Ask the retriever of a collection, waiting for it while the process starts."""

        def current() -> Retriever | None:
            served = self.collections.get(collection)
            return served.retriever if served and not served.away else None

        retriever = current()
        if retriever is None:
            self.wait_for_start(current, min(LOADING_SECONDS, deadline.remaining()))
            retriever = current()
        served = self.collections.get(collection)
        if served is None and self.tried:
            raise CollectionMissing(collection, self.collections)
        if served is None or retriever is None:
            raise NotReady(served.reason if served else LOADING)
        try:
            return ask(retriever)
        except Exception as error:
            _note_failure(error, [served])
            raise

    def _search_several(self, request: SearchRequest, embedded: QueryTokens | None, scope: Scope) -> Answer:
        """Answer from those of several collections that a scope has; of all, without those that are not ready."""
        names = names_of(request.collections or ())
        self.wait_for_start(lambda: False, min(LOADING_SECONDS, deadline.remaining()))
        if not self.tried:
            raise NotReady(LOADING)
        there = {name: served for name, served in self.collections.items() if scope.has(name)}
        missing = [name for name in names or () if name not in there] or [ALL] * (not there)
        if missing:
            raise CollectionMissing(missing[0], there, "collections")
        there = {name: served for name, served in there.items() if names is None or name in names}
        ready = {name: served.retriever for name, served in there.items() if served.retriever and not served.away}
        away = [name for name in there if name not in ready]
        if away and (names or not ready):
            raise NotReady(f"collection {away[0]!r}: {there[away[0]].reason}")
        narrowed = [(scope.narrowed(name, request.only), each.generation.manifest) for name, each in ready.items()]
        parts = tuple(in_force(only, manifest) for only, manifest in narrowed)
        only = EachFilter(parts=parts) if any(parts) else None
        search = replace(request, collection=next(iter(ready)), collections=",".join(ready), filter=only)
        try:
            found = self._answer(self._joint(ready, self._model()), search, embedded)
        except Exception as error:
            _note_failure(error, [there[name] for name in ready])
            raise
        return replace(found, unavailable=away)

    def _answer(self, retriever: Retriever, request: SearchRequest, embedded: QueryTokens | None) -> Answer:
        """Answer from one generation, unless its caller's last searches there had the same."""
        if request.rerank or isinstance(request.filter, Mapping):  # it depends on the time left; a dict has no hash
            return retriever.answer_query(request, embedded)
        began, key = time.perf_counter(), ("answers", retriever.generation.manifest.id, request)
        known: bytes | None = self.cache.get(*key)
        if known is None:
            answer = retriever.answer_query(request, embedded)
            packed = _PACK(answer)  # as objects it would take ten times the memory, and the processor's caches
            self.cache.put(packed, len(packed), *key)
            return answer
        answer = _UNPACK(known)
        total = round((time.perf_counter() - began) * 1000, 3)
        return replace(answer, took_ms=dict.fromkeys(answer.took_ms, 0.0) | {"total": total})

    def _model(self) -> ServedModel:
        """Return the model, waiting for it while the process starts. Raises NotReady."""
        self.wait_for_start(lambda: self.model, min(LOADING_SECONDS, deadline.remaining()))
        if self.model is None:
            raise NotReady(next(iter(self.collections.values())).reason)
        return self.model


def _note_failure(error: Exception, served: Iterable[ServedCollection]) -> None:
    """Have files of collections that were asked looked at. Raises NotReady for what an operator can mend."""
    is_away = isinstance(error, StoreError | IndexMissing)  # a store that is away, or had this generation removed
    if isinstance(error, IndexCorrupt) or not isinstance(error, PilotlightError):  # which nothing has noticed, perhaps
        for each in served:
            each.suspect = True
    if is_away or isinstance(error, IndexCorrupt):
        raise NotReady(str(error)) from error


def by_section(document: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield heading path and passages of each section of a document, in reading order."""
    for name, passages in groupby(document["passages"], key=lambda passage: str(passage["section"])):
        yield name, list(passages)
