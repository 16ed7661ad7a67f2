"""Answer requests for searches, documents and embeddings from the live index."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from embedder.config import Role
from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from indexer.errors import IndexCorrupt, IndexMissing, StoreError
from indexer.filter import EachFilter, Filter
from indexer.generation.documents import DocumentEntry
from indexer.generation.documents import StoredChunk as StoredChunk  # re-exported for `rag.adapters`
from indexer.generation.editions import edition_at
from indexer.generation.manifest import DEFAULT, collection_dir
from indexer.stores import Searchable
from rag import deadline
from rag.access import EVERYTHING, Scope
from rag.errors import CollectionMissing, NotConfigured, NotReady, NotThere
from rag.query.request import ALL, DEFAULT_SUGGESTIONS, SearchRequest, effective_filter, names_of
from rag.query.results import MAX_TYPED_CHARS, MIN_TYPED_CHARS, Answer, Suggestion, count_facets, suggestions
from rag.query.retriever import Retriever
from rag.serving.follower import LOADING, Follower, QueryEmbedding, ServedModel
from rag.stores import facts_of

if TYPE_CHECKING:
    from rag.messages import Changes

Matches = Callable[[bytes], object]

_PACK, _UNPACK = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Answer).decode
BATCH_PASSAGES = 64
MAX_SHOWN_CHARACTERS = 1_000_000
_MAX_CACHED_OVERVIEWS = 256  # per index


@dataclass(frozen=True, slots=True)
class LiveRetriever:
    """Answers requests from the live index. A rebuild of the index does not affect running requests.

    `within` restricts the results to the documents that a caller may read, called the scope. Scores still depend on all
    documents. `embed`, `embed_queries` and `rerank` do not read documents, so they ignore the scope.
    """

    follower: Follower
    scope: Scope = EVERYTHING

    def within(self, scope: Scope) -> "LiveRetriever":
        """Return a retriever whose results are restricted to the documents of a scope."""
        return self if scope is EVERYTHING or scope.is_all else LiveRetriever(self.follower, scope)

    def start(self) -> None:
        """Start the thread that loads the model and the index."""
        self.follower.start()

    def close(self) -> None:
        """Stop the thread, and close the stores."""
        self.follower.close()

    @property
    def ready(self) -> bool:
        """True if searches can be answered in at least one collection."""
        return any(each.is_ready for each in self.follower.collections.values())

    def status(self) -> dict[str, Any]:
        """Return the state of the server and of the collections in the scope, JSON-ready.

        `reason` says why the default collection cannot be searched, and is empty if it can. `missing` says whether this
        collection has never been built. `generation`, `created_at`, `documents` and `chunks` describe its live
        index, and `collections` describes each collection in the same way.
        """
        every, settings, model = self.follower.collections, self.follower.settings, self.follower.model
        collections = {name: served for name, served in every.items() if self.scope.has(name)}
        first = collections.get(DEFAULT) or (next(iter(every.values())) if self.scope.is_all else None)
        plan = getattr(model.embedder, "plan", None) if model else None
        return {
            "ready": self.ready,
            "reason": first.reason if first else "",
            "missing": bool(first and first.missing),
            "model": settings.model,
            "engine": plan.engine if plan else settings.engine,
            "precision": plan.precision if plan else settings.precision,
            "query_precision": plan.queries.precision if plan else settings.query_precision,
            **({"dimension": model.embedder.dimension} if model else {}),
            **({"rerank_model": settings.rerank_model} if settings.rerank_model else {}),
            **(collections[DEFAULT].facts() if DEFAULT in collections else {}),
            "collections": [
                {"name": name, "ready": each.is_ready, "reason": each.reason, **each.facts()}
                for name, each in collections.items()
            ],
        }

    def describe(self, collection: str = DEFAULT) -> dict[str, Any]:
        """Return the sources, counts, fingerprint and build report of a collection's live index, JSON-ready.

        Raises CollectionMissing if the caller may not read every document, and the errors of `search`.
        """
        if not self._has_whole(collection):
            raise self._missing(collection)
        manifest = self._retriever(collection).generation.manifest
        built = {"sources": manifest.sources, "report": manifest.report, "fingerprint": manifest.fingerprint}
        return facts_of(manifest) | built

    def search(self, request: SearchRequest, embedded: QueryTokens | None = None) -> Answer:
        """Answer a query from one or several collections. See `Retriever.answer_query`.

        Waits until this worker process has loaded the index. Requests arrive as soon as one of the workers is ready.

        Args:
            request: the query and its options. Its filter applies in addition to the scope of the caller.
            embedded: vector and token vectors of the query, if they are already computed.

        Raises:
            QueryError, FilterError: a field of the request is invalid.
            CollectionMissing: a requested collection does not exist, or is outside of the scope.
            NotConfigured: reranking is requested, but there is no cross-encoder.
            NotReady: a requested collection is not loaded, or its store cannot be reached.
            DeadlinePassed: the deadline of the request has passed.
        """
        unavailable: list[str] = []
        if request.collections is None:
            members = {request.collection: self._retriever(request.collection)}
            if request.filter is not None or self.scope is not EVERYTHING:
                request = replace(request, filter=self.scope.narrowed(request.collection, request.parsed_filter))
        else:
            members, unavailable = self._retrievers(names_of(request.collections))
            narrowed = [(self.scope.narrowed(name, request.parsed_filter), each) for name, each in members.items()]
            filters = tuple(effective_filter(limit, each.generation.manifest) for limit, each in narrowed)
            filter = EachFilter(parts=filters) if any(filters) else None
            request = replace(request, collection=next(iter(members)), collections=",".join(members), filter=filter)
        with self.checking_on_failure(*members):
            retriever = self.follower.joint_retriever(members) if len(members) > 1 else next(iter(members.values()))
            answer = self._answer(retriever, request, embedded)
        return replace(answer, unavailable=unavailable) if unavailable else answer

    def embed(self, texts: Sequence[str], role: Role = "document", model: str = "") -> QueryEmbedding:
        """Embed texts. Raises NotReady while the model is loading, and the errors of `ServedModel.embed`."""
        return self._model().embed(texts, role, model)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, to pass each result to `search` as `embedded`. Raises the errors of `embed`."""
        return self._model().embed_queries(queries)

    def rerank(self, query: str, texts: Sequence[str]) -> tuple[list[float], int]:
        """Score the relevance of texts to a query with the cross-encoder. Waiting searches are served first.

        Returns:
            The score of each text, from 0 to 1, and the number of tokens that the model has processed.

        Raises:
            NotConfigured: there is no cross-encoder.
            NotReady, DeadlinePassed: see `search`.
        """
        self._model()
        reranker = self.follower.reranker
        if reranker is None:
            raise NotConfigured("reranking is not configured here: set rerank_model")
        rows = reranker.model.pairs(query, texts)
        scores = 1 / (1 + np.exp(-reranker.score(rows).astype(np.float64)))
        return scores.tolist(), sum(map(len, rows))

    def open_document(self, id: str, collection: str = DEFAULT) -> "OpenDocument":
        """Open a document. Raises NotThere if the scope has no document with this id, and the errors of `search`."""
        with self._reading(collection) as (generation, scope_filter):
            entry = next(generation.entries(scope_filter, id), None)
        if entry is None:
            raise NotThere(f"there is no document {id[:80]!r} in collection {collection!r}")
        return OpenDocument(self, collection, generation, entry)

    def open_around(self, chunk_id: str, collection: str = DEFAULT) -> "tuple[OpenDocument, int] | None":
        """Return the document that contains a passage, and the index of the passage in the document, or None."""
        with self._reading(collection) as (generation, scope_filter):
            entry_and_row = generation.entry_of(chunk_id, scope_filter)
        if entry_and_row is None:
            return None
        entry, row = entry_and_row
        return OpenDocument(self, collection, generation, entry), row - entry.rows.start

    def questions(self, collection: str = DEFAULT) -> list[str]:
        """Return headings that are questions, or [] if the scope is restricted. Raises the errors of `search`."""
        retriever = self._retriever(collection)
        with self.checking_on_failure(collection):
            return retriever.questions if self._has_whole(collection) else []

    def suggest(
        self, typed: str, collection: str = DEFAULT, filter: Filter | None = None, limit: int = DEFAULT_SUGGESTIONS
    ) -> list[Suggestion]:
        """Return titles and headings that complete a text of 2 to 200 characters. Raises the errors of `search`."""
        if (len(typed.strip()) < MIN_TYPED_CHARS or len(typed) > MAX_TYPED_CHARS) and self.scope.has(collection):
            return []
        with self._reading(collection, filter) as (generation, scope_filter):
            return suggestions(typed, generation.suggest(typed, limit + 1, scope_filter), limit)

    def grep(
        self, matches: Matches, collection: str = DEFAULT, filter: Filter | None = None, limit: int = 100
    ) -> tuple[int, list[StoredChunk]]:
        """Find the passages with a text for which `matches` is true. Raises the errors of `search`.

        Args:
            matches: function that searches a text in UTF-8, such as the method `search` of a compiled pattern.
            filter: filter of the documents, applied in addition to the scope of the caller.
            limit: maximum number of passages to return.

        Returns:
            The total number of matching passages, and the first `limit` matching passages in the order of the index.
        """
        rows: list[int] = []
        with self._reading(collection, filter) as (generation, scope_filter):
            for batch in generation.scan(scope_filter):
                deadline.check()
                if matches(b"\n".join([text for _, text in batch])):
                    rows += [row for row, text in batch if matches(text)]
            return len(rows), generation.chunks(np.array(rows[:limit], np.int64))

    def overview(self, collection: str = DEFAULT) -> dict[str, Any]:
        """Summarize the documents in the scope: number, facets and build time. Raises the errors of `search`."""
        with self._reading(collection) as (generation, scope_filter):
            overviews = self.follower.overviews.setdefault(generation, {})
            if scope_filter not in overviews:
                manifest, facts = generation.manifest, generation.survey(scope_filter)
                editions = (edition_at(each.url, each.source, manifest.versions) for each in facts)
                facets = count_facets(facts, [edition.version for edition in editions if edition])
                if len(overviews) >= _MAX_CACHED_OVERVIEWS:
                    overviews.clear()
                overviews[scope_filter] = {"documents": len(facts), "created_at": manifest.created_at, "facets": facets}
            return overviews[scope_filter]

    def documents(self, collection: str = DEFAULT) -> "Iterator[OpenDocument]":
        """Return an iterator over the documents in the scope. Raises the errors of `search` before it returns."""
        with self._reading(collection) as (generation, scope_filter):
            entries = generation.entries(scope_filter)
            first = next(entries, None)  # raises errors now, before a response begins
        present = () if first is None else chain([first], entries)
        return (OpenDocument(self, collection, generation, entry) for entry in present)

    @contextmanager
    def checking_on_failure(self, *collections: str) -> Iterator[None]:
        """If the `with` block fails, request a check of the index files. Raises NotReady if they are unreadable."""
        try:
            yield
        except Exception as error:
            is_corrupt = isinstance(error, IndexCorrupt)
            if is_corrupt or not isinstance(error, PilotlightError):
                for served in filter(None, map(self.follower.collections.get, collections)):
                    served.suspect = True
            if is_corrupt or isinstance(error, StoreError | IndexMissing):
                raise NotReady(str(error)) from error
            raise

    def changes(
        self, since: str | None, until: str | None = None, collection: str = DEFAULT, filter: Filter | None = None
    ) -> "Changes":
        """Compare two index generations or product versions. Omits sections after the first MAX_SHOWN_CHARACTERS.

        Args:
            since: the earlier generation or version; None for the previous generation.
            until: the later generation or version; None for the live generation or the newest version.
            filter: filter of the documents, applied in addition to the scope of the caller.

        Raises:
            FieldError: there is no such generation or version.
            NotConfigured: the server searches in Milvus, which cannot compare generations.
            CollectionMissing, NotReady, FilterError: see `search`.
        """
        from rag.changes.snapshots import find_changes

        settings = self.follower.settings
        if settings.store:
            raise NotConfigured("changes require an index folder, and this server answers from Milvus")
        scope_filter = self.scope.narrowed(collection, filter)
        with self._reading(collection, filter):
            folder = collection_dir(settings.index_dir, collection)
            changes = find_changes(folder, collection, since, until, lambda each: effective_filter(scope_filter, each))
        lengths = accumulate(each.characters for each in changes.documents)
        documents = [
            document if length <= MAX_SHOWN_CHARACTERS else replace(document, sections=[])
            for document, length in zip(changes.documents, lengths, strict=True)
        ]
        return replace(changes, documents=documents)

    @contextmanager
    def _reading(self, collection: str, requested: Filter | None = None) -> Iterator[tuple[Searchable, Filter | None]]:
        """Yield the live index of a collection, and a filter for both `requested` and the scope of the caller."""
        generation = self._retriever(collection).generation
        with self.checking_on_failure(collection):
            yield generation, effective_filter(self.scope.narrowed(collection, requested), generation.manifest)

    def _retriever(self, collection: str) -> Retriever:
        """Wait for a collection to load, and return its retriever. Raises CollectionMissing or NotReady."""
        follower = self.follower
        if self.scope is not EVERYTHING and not self.scope.has(collection):
            raise self._missing(collection)
        served = follower.collections.get(collection)
        if served is None or served.retriever is None:
            follower.wait_for_start(lambda: getattr(follower.collections.get(collection), "retriever", None))
            served = follower.collections.get(collection)
        if served is None and follower.has_refreshed:
            raise self._missing(collection)
        retriever = served.retriever if served else None
        if served is None or retriever is None or served.unreachable:
            raise NotReady(served.reason if served else LOADING)
        return retriever

    def _retrievers(self, names: Sequence[str] | None) -> tuple[dict[str, Retriever], list[str]]:
        """Return retrievers by collection, and the collections that are not ready. If `names` is None, use all."""
        follower = self.follower
        follower.wait_for_start(lambda: False)
        if not follower.has_refreshed:
            raise NotReady(LOADING)
        visible = {name: served for name, served in follower.collections.items() if self.scope.has(name)}
        missing = [name for name in names or () if name not in visible] or [ALL] * (not visible)
        if missing:
            raise CollectionMissing(missing[0], visible, "collections")
        visible = {name: served for name, served in visible.items() if names is None or name in names}
        ready = {name: each.retriever for name, each in visible.items() if each.retriever and not each.unreachable}
        unavailable = [name for name in visible if name not in ready]
        if unavailable and (names or not ready):
            raise NotReady(f"collection {unavailable[0]!r}: {visible[unavailable[0]].reason}")
        return ready, unavailable

    def _answer(self, retriever: Retriever, request: SearchRequest, embedded: QueryTokens | None) -> Answer:
        """Answer a request from the cache, or search and cache the answer. Reranked answers are not cached."""
        if request.rerank:
            return retriever.answer_query(request, embedded)
        began, key = time.perf_counter(), ("answers", retriever.generation.manifest.id, request)
        packed: bytes | None = self.follower.cache.get(*key)
        if packed is None:
            answer = retriever.answer_query(request, embedded)
            packed = _PACK(answer)  # ten times smaller than the object
            self.follower.cache.put(packed, len(packed), *key)
            return answer
        answer = _UNPACK(packed)
        total = round((time.perf_counter() - began) * 1000, 3)
        return replace(answer, took_ms=dict.fromkeys(answer.took_ms, 0.0) | {"total": total})

    def _model(self) -> ServedModel:
        """Return the model. Waits while the model is loading. Raises NotReady if this takes too long or fails."""
        follower = self.follower
        follower.wait_for_start(lambda: follower.model)
        if follower.model is None:
            raise NotReady(next(iter(follower.collections.values())).reason)
        return follower.model

    def _has_whole(self, collection: str) -> bool:
        served = self.follower.collections.get(collection)
        is_restricted = bool(served and served.facts().get("restricted"))
        return (self.scope if is_restricted else self.scope.without_lists()).has_whole(collection)

    def _missing(self, collection: str) -> CollectionMissing:
        return CollectionMissing(collection, filter(self.scope.has, self.follower.collections))


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A document in the index. Its passages are read on demand."""

    live: LiveRetriever
    collection: str
    generation: Searchable
    entry: DocumentEntry

    @property
    def count(self) -> int:
        """The number of passages."""
        return len(self.entry.rows)

    @property
    def facts(self) -> dict[str, Any]:
        """The properties of the document, such as `url` and `title`, JSON-ready."""
        return {"generation": self.generation.manifest.id, **self.entry.facts}

    def headings(self) -> list[tuple[str, str, int]]:
        """Return the address, heading path and number of tokens of every passage."""
        with self.live.checking_on_failure(self.collection):
            return self.generation.headings(self.entry.rows)

    def passages(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Return passages[start:stop], JSON-ready."""
        with self.live.checking_on_failure(self.collection):
            return self.generation.passages(self.entry.rows[max(0, start) : max(0, stop)])

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield all passages in batches."""
        for start in range(0, self.count, BATCH_PASSAGES):
            yield self.passages(start, start + BATCH_PASSAGES)
