"""A retriever that loads in the background and follows the index: new generations are swapped in under traffic."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, BinaryIO, TypeVar

import numpy as np

from embedder.late_interaction import QueryTokens
from embedder.protocol import CrossEncoder, Embedder, Role
from embedder.text_embedder import TextEmbedder
from indexer.errors import FilterError, IndexCorrupt, IndexMissing, SourceError, StoreError
from indexer.filter import Filter
from indexer.generation.layout import DEFAULT
from indexer.generation.likeness import once
from indexer.generation.manifest import Manifest
from indexer.sources.folder_tree import open_original
from rag import deadline
from rag.errors import (
    CollectionMissing,
    DeadlinePassed,
    DocumentMissing,
    NotReady,
    OriginalMissing,
    QueryError,
    RerankOff,
)
from rag.query.headings import is_suggested_for, suggestions
from rag.query.request import SUGGESTED, SearchRequest, in_force
from rag.query.results import Answer, Relevance, Suggestion
from rag.query.retriever import Retriever
from rag.query.served_model import Embedding, ServedModel, runs
from rag.serving.follower import LOADING, Follower, MakeEmbedder, MakeReranker, facts_of
from rag.settings import Settings

Found = TypeVar("Found")
Section = tuple[str, list[dict[str, Any]]]  # heading path, and passages

OUTCOMES = 20  # searches whose outcomes are remembered, for OUTCOME_S
FEWEST_OUTCOMES = 5  # for a judgement
FAILING_SHARE = 0.5  # of failed searches from which a worker is not ready
OUTCOME_S = 30.0
LOADING_SECONDS = 20.0  # that a query waits for a process that has just been started


def load_embedder(settings: Settings) -> Embedder:
    """Load the embedder that the settings describe."""
    return TextEmbedder(settings.embedder_config())


def load_reranker(settings: Settings) -> CrossEncoder | None:
    """Load the cross-encoder that the settings describe, if they do."""
    config = settings.reranker_config()
    if config is None:
        return None
    from embedder.reranker import Reranker

    return Reranker(config)


class LiveRetriever:
    """Answers from the live generation of every collection. A query keeps the generation it started with.

    Set `on_run` to a function that is called, for each run of the model, with how many texts went in and still wait.
    """

    on_run: Callable[[int, int], None] | None = None

    def __init__(
        self,
        settings: Settings,
        make_embedder: MakeEmbedder = load_embedder,
        make_reranker: MakeReranker = load_reranker,
    ) -> None:
        self._settings = settings
        self._follower = Follower(settings, make_embedder, make_reranker, self._ran)
        self._lock = threading.Lock()
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=OUTCOMES)  # when, and whether a search failed

    def start(self) -> None:
        """Begin to load. Returns at once; `ready` turns true when the first query would be fast."""
        self._follower.start()

    def close(self) -> None:
        """Stop following the index."""
        self._follower.close()

    @property
    def ready(self) -> bool:
        """Whether queries to at least one collection are answered, and have not mostly failed of late."""
        return any(each.serving for each in self._follower.collections.values()) and not self._trouble()

    def status(self) -> dict[str, Any]:
        """Return what is being served, JSON-ready.

        `reason` says what is wrong with the default collection, or still to come, and is else empty; `missing` is
        whether nothing was ever built there; `generation`, `created_at`, `documents` and `chunks` are there where it
        is served. `collections` says the same of each.
        """
        collections, settings = self._follower.collections, self._settings
        first = collections.get(DEFAULT) or next(iter(collections.values()))
        model = self._follower.model
        plan = getattr(model.embedder, "plan", None) if model else None
        return {
            "ready": self.ready,
            "reason": self._trouble() or first.reason,
            "missing": first.missing,
            "model": settings.model,
            "engine": plan.engine if plan else settings.engine,
            "precision": plan.precision if plan else settings.precision,
            **({"dimension": model.embedder.dimension} if model else {}),
            **({"rerank_model": settings.rerank_model} if settings.rerank_model else {}),
            **(first.facts() if DEFAULT in collections else {}),
            "collections": [
                {"name": name, "ready": followed.serving is not None, "reason": followed.reason, **followed.facts()}
                for name, followed in collections.items()
            ],
        }

    def describe(self, collection: str = DEFAULT) -> dict[str, Any]:
        """Return what the generation served is and how it was built, JSON-ready. Raises as `search` does."""
        manifest = self._serving(collection).generation.manifest
        built = {"sources": manifest.sources, "report": manifest.report, "fingerprint": manifest.fingerprint}
        return facts_of(manifest) | built

    def search(self, request: SearchRequest, embedded: QueryTokens | None = None) -> Answer:
        """Answer from the live generation of a collection; see `Retriever.answer_query`.

        A query that comes while the process is starting waits: with several workers, another may already be serving,
        and would have answered. Raises QueryError, CollectionMissing, NotReady or DeadlinePassed.
        """
        return self._ask(request.collection, lambda retriever: retriever.answer_query(request, embedded))

    def embed(self, texts: Sequence[str], role: Role = "document", model: str = "") -> Embedding:
        """Embed texts; see `ServedModel.embed`. Raises ModelMissing, NotReady or DeadlinePassed."""
        return self._model().embed(texts, role, model)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens, as `search` takes them. Raises as `embed` does."""
        return self._model().embed_queries(queries)

    def rerank(self, query: str, texts: Sequence[str]) -> Relevance:
        """Score how well each text answers a query, after all searches that wait. Raises RerankOff."""
        if not self._settings.rerank_model:
            raise RerankOff
        self._model()
        queue = self._follower.reranker
        if queue is None:
            raise RerankOff
        rows = queue.model.pairs(query, texts)
        sizes = [len(row) for row in rows]
        parts = [queue.score(rows[run]) for run in runs(sizes)]
        return Relevance(np.concatenate([np.empty(0, np.float32), *parts]), sum(sizes))

    def document(self, id: str, collection: str = DEFAULT, filter: Filter | None = None) -> dict[str, Any]:
        """Return a document that a filter allows with its passages, JSON-ready. Raises DocumentMissing."""
        return self._document(id, collection, filter)[0]

    def sections(
        self, id: str, collection: str = DEFAULT, whole: str = "", filter: Filter | None = None
    ) -> tuple[dict[str, Any], list[Section]]:
        """Return a document, and its passages by heading, see `by_section`. Raises as `document` does."""
        found, _ = self._document(id, collection, filter)
        return found, list(by_section(found, whole))

    def original(self, id: str, collection: str = DEFAULT, filter: Filter | None = None) -> tuple[str, BinaryIO]:
        """Open the file that a document was read from; see `open_original`. Raises OriginalMissing."""
        found, manifest = self._document(id, collection, filter)
        within = manifest.settings.get("crawl", {}).get("within", {})
        try:
            return open_original(found["url"], found["source"], within.get(found["source"], ()))
        except SourceError as error:
            raise OriginalMissing(str(error)) from error

    def headings(self, collection: str = DEFAULT) -> list[str]:
        """Return headings from all over the index that are worth asking for, best first. Raises as `search` does."""
        return self._ask(collection, lambda retriever: retriever.headings)

    def suggest(
        self, typed: str, collection: str = DEFAULT, filter: Filter | None = None, most: int = SUGGESTED
    ) -> list[Suggestion]:
        """Return titles and headings with what is typed, of documents that a filter allows. Raises as `search` does."""
        if not is_suggested_for(typed):
            return []

        def look(retriever: Retriever) -> list[Suggestion]:
            generation = retriever.generation
            headings = generation.suggest(typed, most + 1, in_force(filter, generation.manifest))
            return suggestions(typed, headings, most)

        return self._ask(collection, look)

    def documents(self, collection: str = DEFAULT, filter: Filter | None = None) -> Iterator[dict[str, Any]]:
        """Return every document of the generation that is live now and that a filter allows, as `document` does."""

        def begin(retriever: Retriever) -> Iterator[dict[str, Any]]:
            generation = retriever.generation
            documents = generation.documents(in_force(filter, generation.manifest))
            first = next(documents, None)  # what cannot be read at all is told before an answer begins
            return documents if first is None else chain([first], documents)

        return self._ask(collection, begin)

    def _document(self, id: str, collection: str, filter: Filter | None) -> tuple[dict[str, Any], Manifest]:
        """Return a document that a filter allows, with the manifest. Raises as `document` does."""

        def look(retriever: Retriever) -> tuple[dict[str, Any] | None, Manifest]:
            generation = retriever.generation
            only = in_force(filter, generation.manifest)
            return next(generation.documents(only, id), None), generation.manifest

        found, manifest = self._ask(collection, look)
        if found is None:
            raise DocumentMissing(id, collection)
        return found, manifest

    def _ask(self, collection: str, ask: Callable[[Retriever], Found]) -> Found:
        """Ask the retriever of a collection; a store that fails meanwhile makes it not ready."""
        retriever = self._serving(collection)
        failed: bool | None = False  # None: says nothing about us
        try:
            try:
                return ask(retriever)
            except IndexMissing:  # a store had it removed before the follower saw that newer ones had come
                newer = self._follower.await_other(collection, retriever, min(LOADING_SECONDS, deadline.remaining()))
                if newer is None or newer is retriever:
                    raise
                return ask(newer)
        except (StoreError, IndexMissing) as error:
            failed = None
            raise NotReady(str(error)) from error
        except (QueryError, FilterError, DeadlinePassed):
            failed = None
            raise
        except IndexCorrupt as error:
            failed = True
            self._follower.suspect(collection, retriever)
            raise NotReady(str(error)) from error
        except Exception:
            failed = True
            raise
        finally:
            if failed is not None:
                with self._lock:
                    self._outcomes.append((time.monotonic(), failed))

    def _trouble(self) -> str:
        """Return what is wrong if too many searches have failed of late; else empty."""
        since = time.monotonic() - OUTCOME_S
        with self._lock:
            latest = [failed for at, failed in self._outcomes if at >= since]
        if len(latest) < FEWEST_OUTCOMES or sum(latest) < FAILING_SHARE * len(latest):
            return ""
        return f"{sum(latest)} of the last {len(latest)} searches failed; see the log"

    def _ran(self, texts: int, waiting: int) -> None:
        if self.on_run:
            self.on_run(texts, waiting)

    def _serving(self, collection: str) -> Retriever:
        """Return the retriever of a collection, waiting for it while the process starts."""
        follower = self._follower
        retriever = follower.serving(collection)
        if retriever is None:
            follower.await_first(lambda: follower.serving(collection), min(LOADING_SECONDS, deadline.remaining()))
            retriever = follower.serving(collection)
        if retriever is None:
            followed = follower.collections.get(collection)
            if followed is None and follower.tried:
                raise CollectionMissing(collection, follower.collections)
            raise NotReady(followed.reason if followed else LOADING)
        return retriever

    def _model(self) -> ServedModel:
        """Return the model, waiting for it while the process starts. Raises NotReady."""
        follower = self._follower
        if follower.model is None:
            follower.await_first(lambda: follower.model, min(LOADING_SECONDS, deadline.remaining()))
        if follower.model is None:
            raise NotReady(next(iter(follower.collections.values())).reason)
        return follower.model


def by_section(document: Mapping[str, Any], whole: str = "") -> Iterator[Section]:
    """Yield the sections of a document, in reading order, without what passages share with the one before.

    The passage whose id is `whole` keeps its text.
    """
    for name, group in groupby(document["passages"], key=lambda passage: str(passage["section"])):
        passages = list(group)
        kept = next((place for place, passage in enumerate(passages) if passage["id"] == whole), None)
        texts = once([passage["text"] for passage in passages], kept)
        yield name, [passage | {"text": text} for passage, text in zip(passages, texts, strict=True) if text]
