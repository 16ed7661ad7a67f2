"""Follow an index in a thread: open every new generation of every collection, warm it and swap it in."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from embedder.errors import PilotlightError
from embedder.protocol import CrossEncoder, Embedder
from indexer import memory
from indexer.errors import IndexCorrupt, IndexMissing, IndexUnreadable, IndexUnwritable, StoreError
from indexer.generation.generation import Generation
from indexer.generation.layout import CURRENT, DEFAULT, GENERATIONS
from indexer.generation.manifest import Manifest
from indexer.publish.publish import SelfCheck
from indexer.stores.store import FolderStore, Store
from rag.query.request import Limits
from rag.query.retriever import Retriever
from rag.query.served_model import RerankQueue, ServedModel
from rag.serving.store_access import older_ids, stores_of
from rag.settings import Settings

POLL_SECONDS = 1.0
CHECKED_BYTES = 4 * 1024 * 1024  # of each collection's files that are compared with their checksums at every look
RETRY_SECONDS = 30.0  # until a model that could not be loaded is tried again
ROUND_SECONDS = 600.0  # that such a comparison takes at least, from the first file to the last
LOADING = "loading the model and the index"

MakeEmbedder = Callable[[Settings], Embedder]
MakeReranker = Callable[[Settings], CrossEncoder | None]

log = logging.getLogger("pilotlight")


class ServedCollection:
    """A collection as it is served; only the thread that follows the index changes it."""

    def __init__(self) -> None:
        self.retriever: Retriever | None = None
        self.away = False  # whether its store could not be asked when it was last tried
        self.reason = LOADING  # what is wrong, or still to come; else empty
        self.missing = False  # whether nothing was ever built there
        self.refused: tuple[str | None, int] | None = None  # generation that cannot be opened
        self.suspect = False  # whether a search has found it damaged
        self.round: Iterator[int] = iter(())  # over the files of what is served
        self.next_round = 0.0  # when the next one may begin
        self.files: SelfCheck | None = None  # of what is served from a folder

    @property
    def serving(self) -> Retriever | None:
        """The retriever that answers queries now."""
        return None if self.away else self.retriever

    def facts(self) -> dict[str, Any]:
        """Return the facts of what is served, JSON-ready; empty where nothing is."""
        if self.retriever is None:
            return {}
        manifest = self.retriever.generation.manifest
        return facts_of(manifest) | ({"restricted": True} if manifest.is_restricted else {})


class Follower:
    """Follows the collections of an index, or the one of a store.

    `on_run` is called, for each run of the model, with how many texts went in and how many still wait.
    """

    def __init__(
        self,
        settings: Settings,
        make_embedder: MakeEmbedder,
        make_reranker: MakeReranker,
        on_run: Callable[[int, int], None],
    ) -> None:
        self.collections = {DEFAULT: ServedCollection()}  # replaced as a whole, never changed
        self.model: ServedModel | None = None  # once it is loaded
        self.reranker: RerankQueue | None = None  # once it is loaded, if one is set
        self.tried = False  # whether loading has come to an end, good or bad
        self._settings = settings
        self._load_model = partial(ServedModel, settings.model, partial(make_embedder, settings), on_run)
        self._make_reranker = partial(make_reranker, settings)
        self._next_load = 0.0  # when a model that could not be loaded is tried again
        self._stores: dict[str, Store] = {}
        self._has_swapped = False
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="pilotlight-index", daemon=True)

    def start(self) -> None:
        """Begin to load. Returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop following the index."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)
        for store in self._stores.values():
            store.close()

    def serving(self, name: str) -> Retriever | None:
        """Return the retriever that answers queries to a collection now."""
        served = self.collections.get(name)
        return served.serving if served else None

    def await_first(self, found: Callable[[], object], seconds: float) -> None:
        """Wait until `found` is true or loading has ended, for `seconds` at most; not at all if it has not begun."""
        if not self.tried and self._thread.is_alive():
            with self._changed:
                self._changed.wait_for(lambda: self.tried or found(), seconds)

    def await_other(self, name: str, retriever: Retriever, seconds: float) -> Retriever | None:
        """Wait until a collection is served by another retriever; return what serves it then."""
        with self._changed:
            self._changed.wait_for(lambda: self.serving(name) is not retriever, seconds)
        return self.serving(name)

    def suspect(self, name: str, retriever: Retriever) -> None:
        """Note that a search has found damage in what served it: the next look compares all of its files."""
        served = self.collections.get(name)
        if served and served.retriever is retriever and not served.suspect:
            log.error("collection %s: generation %s gave a damaged answer", name, retriever.generation.manifest.id)
            served.suspect = True

    def _follow(self) -> None:
        while True:
            if self._has_swapped:  # and the generation before has been closed meanwhile, as a rule
                self._has_swapped = False
                memory.trim()
            try:
                self._refresh()
            except Exception:
                log.exception("following the index failed")
            with self._changed:
                self.tried = True
                self._changed.notify_all()
            if self._stop.wait(POLL_SECONDS):
                return

    def _refresh(self) -> None:
        if not (self._settings.store and self._stores):  # a store outside the index folder keeps its connection
            self._stores = stores_of(self._settings)
        stores = self._stores
        default = self.collections.get(DEFAULT)
        if not stores or (default and default.retriever):
            stores = {DEFAULT: FolderStore(self._settings.index_dir), **stores}  # so that it says what is wrong
        for name in self.collections.keys() - stores.keys():
            log.info("collection %s is gone", name)
        self.collections = {name: self.collections.get(name) or ServedCollection() for name in stores}
        for name, store in stores.items():
            served = self.collections[name]
            try:
                self._update(name, store, served)
                self._check(name, store, served)
            except PilotlightError as error:
                served.missing = isinstance(error, IndexMissing) and served.retriever is None
                self._note(name, served, str(error))
            except Exception:
                log.exception("loading collection %s failed", name)
                served.reason = "an internal error while loading; see the log"

    def _update(self, name: str, store: Store, served: ServedCollection) -> None:
        """Serve the live generation of a collection, unless it is served or was refused before."""
        live: str | None = None
        try:
            live = store.live_id()
        except IndexCorrupt:
            pass  # which is said again when it is opened
        except StoreError:
            served.away = True
            raise
        served.away = False
        if served.retriever and served.retriever.generation.manifest.id == live:
            served.reason, served.refused = "", None
            return
        newest = (live, _mark(store, live))
        if newest == served.refused or (self.model is None and time.monotonic() < self._next_load):
            return
        if self.reranker is None and (reranker := self._make_reranker()):
            self.reranker = RerankQueue(reranker)
        try:
            self._open(name, store, served, live)
        except PilotlightError as error:
            # a temporary folder may find room again, and a store elsewhere be repaired unseen; else all stays as it is
            may_pass = isinstance(error, IndexUnreadable | IndexUnwritable | StoreError)
            may_pass |= self.model is None  # it could not be loaded
            may_pass |= isinstance(error, IndexCorrupt) and not isinstance(store, FolderStore)
            served.refused = None if may_pass else newest
            if served.retriever is None and not isinstance(error, StoreError):
                self._fall_back(name, store, served)
            self._note(name, served, f"{error}{_instead(served)}")

    def _check(self, name: str, store: Store, served: ServedCollection) -> None:
        """Look after the files of what is served; leave a generation that has been damaged for the newest older one."""
        if served.files is None or served.retriever is None:
            return
        try:
            served.files.sizes()
            if served.suspect or time.monotonic() >= served.next_round:
                served.round = iter(served.files.contents())
                served.next_round = time.monotonic() + ROUND_SECONDS
            budget = math.inf if served.suspect else CHECKED_BYTES
            served.suspect = False
            while budget > 0 and (read := next(served.round, 0)):
                budget -= read
        except IndexCorrupt as error:
            damaged = served.retriever
            damaged_id = damaged.generation.manifest.id
            served.refused = (damaged_id, _mark(store, damaged_id))
            self._fall_back(name, store, served)
            if served.retriever is damaged:
                served.retriever = served.files = None
            raise IndexCorrupt(f"{error}{_instead(served)}") from error

    def _fall_back(self, name: str, store: Store, served: ServedCollection) -> None:
        """Serve the newest older generation that can be, in place of a live one that cannot."""
        for generation_id in older_ids(store):
            try:
                self._open(name, store, served, generation_id)
            except PilotlightError as error:
                log.warning("collection %s: %s", name, error)
            else:
                return

    def _open(self, name: str, store: Store, served: ServedCollection, generation_id: str | None) -> None:
        """Serve a generation, once its model is loaded and all is warm; what is served meanwhile answers until then."""
        generation = store.open(generation_id)
        try:
            if self.model is None:
                self._next_load = time.monotonic() + RETRY_SECONDS
                self.model = self._load_model()
            model, limits = self.model, Limits.of(self._settings)
            retriever = Retriever(
                generation, model.embedder, batcher=model.batcher, reranker=self.reranker, limits=limits
            )
            retriever.warm()
        except PilotlightError:
            generation.close()
            raise
        manifest = generation.manifest
        files = SelfCheck(generation.folder, manifest) if isinstance(generation, Generation) else None
        with self._changed:
            # Queries under way keep the generation they hold, which closes itself with the last of them.
            served.reason, served.retriever, served.missing = "", retriever, False
            served.round, served.next_round = iter(()), time.monotonic() + ROUND_SECONDS  # it has just been compared
            served.files = files
            self._has_swapped = True
            self._changed.notify_all()
        log.info("serving generation %s of collection %s: %d chunks", manifest.id, name, manifest.counts.chunks)

    def _note(self, name: str, served: ServedCollection, reason: str) -> None:
        if reason != served.reason:
            log.warning("collection %s: %s", name, reason)
        served.reason = reason


def facts_of(manifest: Manifest) -> dict[str, Any]:
    """Return what a status says of a generation, JSON-ready."""
    counts = manifest.counts
    names = {"generation": manifest.id, "created_at": manifest.created_at}
    return names | {"documents": counts.documents, "chunks": counts.chunks}


def _instead(served: ServedCollection) -> str:
    retriever = served.retriever
    return f"; meanwhile generation {retriever.generation.manifest.id} is served" if retriever else ""


def _mark(store: Store, live: str | None) -> int:
    """Return a mark that changes when a generation is repaired under its name, so that it is tried again."""
    if not isinstance(store, FolderStore):
        return 0
    try:
        return os.stat(store.folder / GENERATIONS / live if live else store.folder / CURRENT).st_ino
    except OSError:
        return 0
