"""A retriever that loads in the background and follows the index: new generations are swapped in under traffic."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from embedder.errors import PilotlightError
from embedder.protocol import Embedder
from indexer.generation import Generation, current_id
from rag.errors import NotReady
from rag.results import Answer
from rag.retriever import Retriever
from rag.settings import Settings

POLL_SECONDS = 1.0
LOADING_SECONDS = 20.0  # that a query waits for a process that has just been started

log = logging.getLogger("pilotlight")


def load_embedder(settings: Settings) -> Embedder:
    """Load the embedder that the settings describe."""
    from embedder.embeddings import Embeddings
    from rag.configs import embedder_config

    return Embeddings(embedder_config(settings))


class LiveRetriever:
    """Answers from the newest good generation. A query keeps the generation it started with."""

    def __init__(self, settings: Settings, make_embedder: Callable[[Settings], Embedder] = load_embedder) -> None:
        self._settings = settings
        self._make_embedder = make_embedder
        self._embedder: Embedder | None = None
        self._retriever: Retriever | None = None
        self._refused = ""  # the newest generation that could not be opened; it is not tried again
        self._reason = "loading the model and the index"
        self._tried = threading.Event()  # whether loading has come to an end, good or bad
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
        """Whether queries are answered."""
        return self._retriever is not None

    def status(self) -> dict[str, Any]:
        """Return what is being served, JSON-ready; `reason` says what is wrong or still to come, and is else empty."""
        retriever = self._retriever
        settings = self._settings
        status: dict[str, Any] = {
            "ready": retriever is not None,
            "reason": self._reason,
            "model": settings.model,
            "engine": settings.engine,
            "precision": settings.precision,
        }
        if retriever:
            manifest = retriever.generation.manifest
            status |= {
                "precision": manifest.fingerprint.get("precision", settings.precision),
                "generation": retriever.generation.id,
                "created_at": manifest.created_at,
                "documents": retriever.generation.document_count,
                "chunks": retriever.generation.chunk_count,
            }
        return status

    def search(self, query: str, *, k: int = 10, mode: str = "dense") -> Answer:
        """Answer from the live generation. Raises QueryError, or NotReady where nothing could be loaded.

        A query that comes while the process is starting waits: with several workers, another may already be serving,
        and would have answered.
        """
        if self._retriever is None and self._thread.is_alive():
            self._tried.wait(LOADING_SECONDS)
        retriever = self._retriever
        if retriever is None:
            raise NotReady(self._reason)
        return retriever.search(query, k=k, mode=mode)

    def _follow(self) -> None:
        while True:
            try:
                self._refresh()
            except PilotlightError as error:
                self._note(str(error))
            except Exception:
                log.exception("following the index failed")
                self._reason = "an internal error while loading; see the log"
            self._tried.set()
            if self._stop.wait(POLL_SECONDS):
                return

    def _refresh(self) -> None:
        newest = current_id(self._settings.index_dir)
        serving = self._retriever.generation.id if self._retriever else None
        if newest in {serving, self._refused}:
            return
        if self._embedder is None:
            self._embedder = self._make_embedder(self._settings)
        try:
            retriever = Retriever(
                Generation.open(self._settings.index_dir, newest),
                self._embedder,
                max_k=self._settings.max_k,
                max_query_chars=self._settings.max_query_chars,
            )
        except PilotlightError:
            self._refused = newest
            raise
        retriever.warm()
        # One assignment: queries under way keep the generation they hold, which closes itself with the last of them.
        self._retriever = retriever
        self._reason = ""
        log.info("serving generation %s: %d chunks", newest, retriever.generation.chunk_count)

    def _note(self, reason: str) -> None:
        if reason != self._reason:
            log.warning("%s", reason)
        self._reason = reason
