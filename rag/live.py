"""A retriever that loads in the background and follows the index: new generations are swapped in under traffic."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer.collections import list_collections, older_ids
from indexer.errors import IndexCorrupt, IndexUnwritable
from indexer.filter import Filter
from indexer.generation import Generation, current_id
from indexer.layout import CURRENT, DEFAULT, GENERATIONS
from rag.batcher import QueryBatcher
from rag.errors import CollectionMissing, NotReady
from rag.results import Answer
from rag.retriever import Retriever
from rag.settings import Settings

POLL_SECONDS = 1.0
LOADING_SECONDS = 20.0  # that a query waits for a process that has just been started
_LOADING = "loading the model and the index"

log = logging.getLogger("pilotlight")


def load_embedder(settings: Settings) -> Embedder:
    """Load the embedder that the settings describe."""
    from embedder.embeddings import Embeddings
    from rag.configs import embedder_config

    return Embeddings(embedder_config(settings))


class _Followed:
    """A collection as it is served; only the thread that follows the index changes it."""

    def __init__(self) -> None:
        self.retriever: Retriever | None = None
        self.reason = _LOADING
        self.refused: tuple[str | None, int] | None = (
            None  # the generation that could not be opened; it is not tried again
        )

    def facts(self) -> dict[str, Any]:
        if self.retriever is None:
            return {}
        generation = self.retriever.generation
        return {
            "generation": generation.id,
            "created_at": generation.manifest.created_at,
            "documents": generation.document_count,
            "chunks": generation.chunk_count,
        }


class LiveRetriever:
    """Answers from the live generation of every collection. A query keeps the generation it started with."""

    def __init__(self, settings: Settings, make_embedder: Callable[[Settings], Embedder] = load_embedder) -> None:
        self._settings = settings
        self._make_embedder = make_embedder
        self._batcher: QueryBatcher | None = None
        self._followed = {DEFAULT: _Followed()}  # replaced as a whole, never changed
        self._tried = False  # whether loading has come to an end, good or bad
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="pilotlight-index", daemon=True)

    def start(self) -> None:
        """Begin to load. Returns at once; `ready` turns true when the first query would be fast."""
        self._thread.start()

    def close(self) -> None:
        """Stop following the index."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def ready(self) -> bool:
        """Whether queries to at least one collection are answered."""
        return any(followed.retriever for followed in self._followed.values())

    def status(self) -> dict[str, Any]:
        """Return what is being served, JSON-ready.

        `reason` says what is wrong with the default collection, or still to come, and is else empty; `generation`,
        `created_at`, `documents` and `chunks` are there where it is served. `collections` says the same of each.
        """
        collections, settings = self._followed, self._settings
        first = collections.get(DEFAULT) or next(iter(collections.values()))
        precision = settings.precision
        if first.retriever:
            precision = first.retriever.generation.manifest.fingerprint.get("precision", precision)
        return {
            "ready": any(followed.retriever for followed in collections.values()),
            "reason": first.reason,
            "model": settings.model,
            "engine": settings.engine,
            "precision": precision,
            **(first.facts() if DEFAULT in collections else {}),
            "collections": [
                {"name": name, "ready": followed.retriever is not None, "reason": followed.reason, **followed.facts()}
                for name, followed in collections.items()
            ],
        }

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        mode: str = "hybrid",
        filter: Filter | None = None,
        collection: str = DEFAULT,
        per_document: int | None = None,
        diversity: float = 0.0,
        expand: str | None = None,
    ) -> Answer:
        """Answer from the live generation of a collection; see `Retriever.search`.

        Without per_document or expand, their settings.

        A query that comes while the process is starting waits: with several workers, another may already be serving,
        and would have answered.

        Raises:
            QueryError: the query cannot be answered as asked.
            CollectionMissing: there is no such collection.
            NotReady: nothing could be loaded from it.
        """
        return self._serving(collection).search(
            query,
            k=k,
            mode=mode,
            filter=filter,
            per_document=self._settings.per_document if per_document is None else per_document,
            diversity=diversity,
            expand=expand or self._settings.expand,
        )

    def _serving(self, collection: str) -> Retriever:
        def found() -> Retriever | None:
            followed = self._followed.get(collection)
            return followed.retriever if followed else None

        retriever = found()
        if retriever is None and not self._tried and self._thread.is_alive():
            with self._changed:
                self._changed.wait_for(lambda: self._tried or found(), LOADING_SECONDS)
            retriever = found()
        if retriever is None:
            followed = self._followed.get(collection)
            if followed is None and self._tried:
                raise CollectionMissing(collection, self._followed)
            raise NotReady(followed.reason if followed else _LOADING)
        return retriever

    def _follow(self) -> None:
        while True:
            try:
                self._refresh()
            except Exception:
                log.exception("following the index failed")
            with self._changed:
                self._tried = True
                self._changed.notify_all()
            if self._stop.wait(POLL_SECONDS):
                return

    def _refresh(self) -> None:
        folders = list_collections(self._settings.index_dir)
        default = self._followed.get(DEFAULT)
        if not folders or (default and default.retriever):
            folders = {DEFAULT: self._settings.index_dir} | folders  # so that it says what is wrong
        for name in self._followed.keys() - folders.keys():
            log.info("collection %s is gone", name)
        self._followed = {name: self._followed.get(name) or _Followed() for name in folders}
        for name, folder in folders.items():
            followed = self._followed[name]
            try:
                self._update(name, folder, followed)
            except PilotlightError as error:
                self._note(name, followed, str(error))
            except Exception:
                log.exception("loading collection %s failed", name)
                followed.reason = "an internal error while loading; see the log"

    def _update(self, name: str, folder: Path, followed: _Followed) -> None:
        live: str | None = None
        with suppress(IndexCorrupt):  # which is said again when it is opened
            live = current_id(folder)
        if followed.retriever and followed.retriever.generation.id == live:
            followed.reason, followed.refused = "", None
            return
        # told apart by its folder too, so that it is tried again once it has been repaired
        newest = (live, _inode(folder / GENERATIONS / live if live else folder / CURRENT))
        if newest == followed.refused:
            return
        if self._batcher is None:  # one for all collections: their queries wait for the same model
            self._batcher = QueryBatcher(self._make_embedder(self._settings))
        try:
            self._serve(name, followed, self._open(folder, live, self._batcher))
        except PilotlightError as error:
            # a temporary folder may find room again, everything else stays as it is
            followed.refused = None if isinstance(error, IndexUnwritable) else newest
            if followed.retriever is None:
                self._fall_back(name, folder, followed, self._batcher)
            instead = (
                f"; until then generation {followed.retriever.generation.id} is served" if followed.retriever else ""
            )
            self._note(name, followed, f"{error}{instead}")

    def _fall_back(self, name: str, folder: Path, followed: _Followed, batcher: QueryBatcher) -> None:
        """Serve the newest older generation that can be, in place of a live one that cannot."""
        for generation_id in older_ids(folder):
            try:
                self._serve(name, followed, self._open(folder, generation_id, batcher))
            except PilotlightError as error:
                log.warning("collection %s: %s", name, error)
            else:
                return

    def _open(self, folder: Path, generation_id: str | None, batcher: QueryBatcher) -> Retriever:
        generation = Generation.open(folder, generation_id)
        try:
            settings = self._settings
            retriever = Retriever(
                generation,
                batcher.embedder,
                batcher=batcher,
                max_k=settings.max_k,
                max_query_chars=settings.max_query_chars,
            )
            retriever.warm()
        except PilotlightError:
            generation.close()
            raise
        return retriever

    def _serve(self, name: str, followed: _Followed, retriever: Retriever) -> None:
        with self._changed:
            # Queries under way keep the generation they hold, which closes itself with the last of them.
            followed.reason, followed.retriever = "", retriever
            self._changed.notify_all()
        generation = retriever.generation
        log.info("serving generation %s of collection %s: %d chunks", generation.id, name, generation.chunk_count)

    def _note(self, name: str, followed: _Followed, reason: str) -> None:
        if reason != followed.reason:
            log.warning("collection %s: %s", name, reason)
        followed.reason = reason


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
