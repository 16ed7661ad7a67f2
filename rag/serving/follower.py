"""Keep an index open for searches. When a new build is published, a thread opens it before searches use it."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from embedder.config import Role
from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from embedder.text_embedder import CrossEncoder, Embedder
from indexer import memory
from indexer.errors import IndexCorrupt, IndexMissing, StoreError
from indexer.filter import Filter
from indexer.generation.generation import Generation, JointGeneration
from indexer.generation.manifest import DEFAULT
from indexer.publish.publish import SelfCheck
from indexer.stores import FolderStore, Searchable, Store
from rag import deadline
from rag.errors import NotThere, RagError
from rag.query.model_queue import WARM_QUERIES, QueryCache, QueryEncoder, RerankQueue, Vector
from rag.query.retriever import Retriever
from rag.settings import Settings
from rag.stores import facts_of, older_ids, stores_of

POLL_SECONDS = 1.0
RETRY_SECONDS = 10.0  # pause before the next attempt to open a broken index
CHECK_SECONDS = 3600.0  # interval of checks of the index files
SUSPECT_SECONDS = 60.0  # interval of checks of the index files while requests fail
LOADING_SECONDS = 20.0  # maximum wait of a query while the process starts
_MAX_CACHED_RETRIEVERS = 16
LOADING = "loading the model and the index"


log = logging.getLogger("pilotlight")


def load_embedder(settings: Settings) -> Embedder:
    """Load the embedder of the settings."""
    return Embedder(settings.embedder_config())


def load_reranker(settings: Settings) -> CrossEncoder | None:
    """Load the cross-encoder of the settings, or return None if `rerank_model` is not set."""
    config = settings.reranker_config()
    return CrossEncoder(config) if config else None


class QueryEmbedding(NamedTuple):
    """The vectors of n texts, the total number of their tokens, and the name of the model."""

    vectors: Vector  # (n, dim)
    tokens: int
    model: str


class ServedModel:
    """An embedder with two queues: one for searches, and a background queue. Safe to share between threads."""

    def __init__(self, name: str, load: Callable[[], Embedder], cache: QueryCache | None = None) -> None:
        """Load the model and embed some queries. Raises RagError if it cannot be loaded, and the errors of `load`."""
        self.name = name
        try:
            self.embedder = load()
            self.encoder = QueryEncoder(self.embedder, cache)
            # A long text takes as long as ten queries, so texts have a separate queue, for which searches never wait.
            self._background = QueryEncoder(self.embedder.twin())
            for query in WARM_QUERIES:
                self.embedder.encode([query], role="query")
            self.embedder.encode(WARM_QUERIES, role="query")
        except MemoryError as error:
            raise RagError(f"there is not enough memory for model {self.name}") from error
        except OSError as error:
            raise RagError(f"model {self.name} cannot be loaded: {error.strerror or error}") from error

    def embed(self, texts: Sequence[str], role: Role, model: str = "") -> QueryEmbedding:
        """Embed texts in the background queue. Raises DeadlinePassed, or NotThere if `model` names another model."""
        if model not in ("", self.name):
            raise NotThere(f"there is no model {model[:80]!r}; the model is {self.name}", "model")
        vectors = self._background.encode(texts, role)
        return QueryEmbedding(vectors, sum(self.embedder.count_tokens(texts, role=role)), self.name)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries and their tokens in the background queue. Raises DeadlinePassed if this takes too long."""
        return self._background.encode_tokens([self.embedder.tokenize_query(query) for query in queries])


class ServedCollection:
    """The state of a served collection. Only its `Follower` changes it, but any thread may set `suspect`."""

    def __init__(self, name: str, store: Store) -> None:
        self.name, self.store = name, store
        self.retriever: Retriever | None = None
        self.unreachable = False  # whether the last attempt to reach the store failed
        self.reason = LOADING  # why searches fail; empty if they do not
        self.missing = False
        self.failed_id: str | None = ""  # id of the index generation that failed to open; empty if none failed
        self.retry_at = 0.0
        self.suspect = False  # True if the index files may be damaged and must be checked
        self.files: SelfCheck | None = None
        self.next_check = self.next_suspect = 0.0

    @property
    def is_ready(self) -> bool:
        """True if searches can be answered."""
        return self.retriever is not None and not self.unreachable

    def facts(self) -> dict[str, Any]:
        """Return the id, build time and counts of the served index generation, JSON-ready, or {} if none is served."""
        retriever = self.retriever
        if retriever is None:
            return {}
        manifest = retriever.generation.manifest
        return facts_of(manifest) | ({"restricted": True} if manifest.is_restricted else {})


class Follower:
    """Keeps the latest build of each collection open for queries, from an index folder or from Milvus."""

    def __init__(
        self,
        settings: Settings,
        make_embedder: Callable[[Settings], Embedder] = load_embedder,
        make_reranker: Callable[[Settings], CrossEncoder | None] = load_reranker,
    ) -> None:
        """Create a follower. Call `start` to load the model and the index.

        Args:
            make_embedder: function that loads the embedder. It is called when an index is opened for the first time.
            make_reranker: function that loads the cross-encoder, or returns None if there is none.
        """
        self.settings = settings
        self.cache = QueryCache(settings.query_cache << 20)
        # Other threads iterate over this dictionary, so it is replaced and never mutated.
        self.collections = {DEFAULT: ServedCollection(DEFAULT, FolderStore(settings.index_dir))}
        self.model: ServedModel | None = None
        self.reranker: RerankQueue | None = None
        self.has_refreshed = False
        self._make_embedder = make_embedder
        self._make_reranker = make_reranker
        self._stores: dict[str, Store] = {}
        self.overviews: WeakKeyDictionary[Searchable, dict[Filter | None, dict[str, Any]]] = WeakKeyDictionary()
        self._joint_retrievers: dict[tuple[Retriever, ...], Retriever] = {}
        self._has_swapped = False
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="pilotlight-index", daemon=True)

    def start(self) -> None:
        """Start the thread that loads the model and the index."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and close the stores."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)
        for store in self._stores.values():
            store.close()

    def wait_for_start(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` is true or the index has been read once. Does not wait if the thread is stopped."""
        if not self.has_refreshed and self._thread.is_alive():
            with self._changed:
                seconds = min(LOADING_SECONDS, deadline.remaining())
                self._changed.wait_for(lambda: self.has_refreshed or condition(), seconds)

    def _follow(self) -> None:
        while True:
            if self._has_swapped:
                self._has_swapped = False
                memory.trim()
            try:
                self._refresh()
            except Exception:
                log.exception("refreshing the index failed")
            with self._changed:
                self.has_refreshed = True
                self._changed.notify_all()
            if self._stop.wait(POLL_SECONDS):
                return

    def _refresh(self) -> None:
        if not (self.settings.store and self._stores):  # a connection to Milvus is kept
            self._stores = stores_of(self.settings)
        stores = self._stores
        default = self.collections.get(DEFAULT)
        if not stores or (default and default.retriever):
            stores = {DEFAULT: FolderStore(self.settings.index_dir), **stores}
        for name in self.collections.keys() - stores.keys():
            log.info("collection %s has been deleted", name)
        self.collections = {name: self.collections.get(name) or ServedCollection(name, stores[name]) for name in stores}
        current = {served.retriever for served in self.collections.values()}
        self._joint_retrievers = {key: each for key, each in self._joint_retrievers.items() if current.issuperset(key)}
        for name, served in self.collections.items():
            served.store = stores[name]
            try:
                self._update(served)
                self._check(served)
            except PilotlightError as error:
                served.missing = isinstance(error, IndexMissing) and served.retriever is None
                self._note(served, str(error))
            except MemoryError:
                self._note(served, memory.SHORT)
            except Exception:
                log.exception("loading collection %s failed", name)
                served.reason = "an internal error while loading; see the log"

    def _update(self, served: ServedCollection) -> None:
        """Open the latest index generation of a collection, unless it is already open or has just failed to open."""
        live: str | None = None
        try:
            live = served.store.live_id()
        except IndexCorrupt:
            pass
        except StoreError:
            served.unreachable = True
            raise
        served.unreachable = False
        if served.retriever and served.retriever.generation.manifest.id == live:
            served.reason, served.failed_id = "", ""
        elif live != served.failed_id or time.monotonic() >= served.retry_at:
            try:
                self._open(served, live)
            except PilotlightError as error:
                self._fall_back(served, live, error)

    def _check(self, served: ServedCollection) -> None:
        """Check the files of the served index generation. If they are damaged, serve an older generation instead."""
        if served.files is None or served.retriever is None:
            return
        now = time.monotonic()
        try:
            served.files.sizes()
            if now >= (served.next_suspect if served.suspect else served.next_check):
                served.suspect = False
                served.next_suspect, served.next_check = now + SUSPECT_SECONDS, now + CHECK_SECONDS
                served.files.contents()
        except IndexCorrupt as error:
            self._fall_back(served, served.retriever.generation.manifest.id, error)

    def _fall_back(self, served: ServedCollection, failed_id: str | None, error: PilotlightError) -> None:
        """Record that an index generation is broken. If none is served now, serve the latest intact one."""
        served.failed_id, served.retry_at = failed_id, time.monotonic() + RETRY_SECONDS
        is_damaged = served.retriever is not None and served.retriever.generation.manifest.id == failed_id
        if is_damaged or (served.retriever is None and not isinstance(error, StoreError)):
            for generation_id in older_ids(served.store):
                try:
                    self._open(served, generation_id)
                    break
                except PilotlightError as other:
                    log.warning("collection %s: %s", served.name, other)
            else:
                served.retriever = served.files = None
        served_id = served.retriever.generation.manifest.id if served.retriever else ""
        self._note(served, f"{error}; meanwhile generation {served_id} is served" if served_id else str(error))

    def _open(self, served: ServedCollection, generation_id: str | None) -> None:
        """Open an index generation, and serve it instead of the current one. Loads the model if necessary."""
        settings, generation = self.settings, served.store.open(generation_id)
        try:
            if self.model is None:
                self.model = ServedModel(settings.model, lambda: self._make_embedder(settings), self.cache)
            if self.reranker is None and (reranker := self._make_reranker(settings)):
                self.reranker = RerankQueue(reranker)
            retriever = self._retriever_of(generation, self.model)
            retriever.warm()
        except PilotlightError:
            generation.close()
            raise
        manifest = generation.manifest
        files = SelfCheck(generation.folder, manifest) if isinstance(generation, Generation) else None
        with self._changed:
            # The previous index stays open until the last query that uses it has ended.
            served.reason, served.retriever, served.missing = "", retriever, False
            served.files, served.suspect = files, False
            served.next_suspect, served.next_check = 0.0, time.monotonic() + CHECK_SECONDS
            self._has_swapped = True
            self._changed.notify_all()
        log.info("serving generation %s of collection %s: %d chunks", manifest.id, served.name, manifest.counts.chunks)

    def _retriever_of(self, generation: Searchable, model: ServedModel) -> Retriever:
        settings, queue = self.settings, self.reranker
        embedder, encoder, synonyms, close = model.embedder, model.encoder, settings.synonyms, settings.close
        return Retriever(generation, embedder, encoder=encoder, reranker=queue, synonyms=synonyms, close=close)

    def joint_retriever(self, members: Mapping[str, Retriever]) -> Retriever:
        """Return a retriever for several collections. The result is cached until one of the collections is rebuilt."""
        key = tuple(members.values())
        retriever = self._joint_retrievers.get(key)
        if retriever is None:
            assert self.model is not None  # noqa: S101 - for the type checker; the model is loaded before retrievers
            generations = {name: each.generation for name, each in members.items()}
            joint = JointGeneration({name: g for name, g in generations.items() if isinstance(g, Generation)})
            retriever = self._retriever_of(joint, self.model)
            self._joint_retrievers = dict([*self._joint_retrievers.items(), (key, retriever)][-_MAX_CACHED_RETRIEVERS:])
        return retriever

    def _note(self, served: ServedCollection, reason: str) -> None:
        if reason != served.reason:
            log.warning("collection %s: %s", served.name, reason)
        served.reason = reason
