"""A retriever for an index behind an address: it keeps a copy on this machine, and follows the copy."""

import logging
import sys
import threading
from typing import Any

from embedder.errors import PilotlightError
from indexer.errors import BuildLocked
from indexer.generation.layout import is_url
from indexer.publish.collections import list_collections, live_id
from indexer.stores.remote.remote_collection import RemoteCollection
from indexer.stores.remote.replica import Replica
from rag.errors import NotReady, SettingsError
from rag.models.loaded_models import MakeEmbedder
from rag.query.retriever import Retriever
from rag.serving.follower import Follower, MakeReranker, ServedCollection
from rag.serving.live import LiveRetriever, load_embedder, load_reranker
from rag.settings import Settings

_READ = frozenset({"search", "verify", "sources", "generations", "export", "collections"})
_FOLLOWED = frozenset({"serve", "mcp"})
_WRITE = frozenset({"index", "remove", "rollback", "import", "drop", "push"})
_PAUSE_S = 0.05

log = logging.getLogger("pilotlight")


class ReplicaKeeper:
    """A thread that keeps the copy of an index in step with its address."""

    def __init__(self, settings: Settings) -> None:
        """Take the address of the settings. Raises StoreAddressError if it cannot be used."""
        self._url = settings.index
        self._poll = settings.poll
        self._replica = _replica_of(settings)
        self._reason = f"looking for an index at {self._url}"
        self.looked = threading.Event()  # set once a look has come to an end, good or bad
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pilotlight-replica", daemon=True)

    @property
    def reason(self) -> str:
        """The trouble with the copy, or what is being done about it; empty while it is in step."""
        return self._replica.doing or self._reason

    def start(self) -> None:
        """Begin to fetch. Returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the look that is under way, which is not waited for: what is half fetched may stay so."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._replica.update()
                self._note("")
            except BuildLocked:  # by another worker, as a rule
                self._reason = f"another process is fetching the index from {self._url}"
                self._stop.wait(min(self._poll, 1.0))
                continue
            except PilotlightError as error:
                self._note(str(error))
            except Exception:
                log.exception("keeping a copy of %s failed", self._url)
                self._reason = "an internal error while fetching the index; see the log"
            self.looked.set()
            self._stop.wait(self._poll)

    def _note(self, reason: str) -> None:
        if reason and reason != self._reason:
            log.warning("%s", reason)
        self._reason = reason


class ReplicaFollower(Follower):
    """Follows a copy once there is one, or once it is known that there cannot be one for now.

    Until then nothing counts as tried, so queries wait for it as they do for a model that is loading.
    """

    def __init__(
        self, settings: Settings, make_embedder: MakeEmbedder, make_reranker: MakeReranker, keeper: ReplicaKeeper
    ) -> None:
        super().__init__(settings, make_embedder, make_reranker)
        self._keeper = keeper

    def _refresh(self) -> None:
        # what another process has fetched is there without a word from our own keeper
        while not self._keeper.looked.is_set() and not list_collections(self._settings.index_dir):
            if self._stop.wait(_PAUSE_S):
                return
        super()._refresh()

    def _note(self, name: str, followed: ServedCollection, reason: str) -> None:
        if followed.missing:  # the keeper says why
            followed.reason = reason
        else:
            super()._note(name, followed, reason)


class ReplicaRetriever(LiveRetriever):
    """Answers from a copy of an index, and keeps the copy in step."""

    def __init__(
        self,
        settings: Settings,
        make_embedder: MakeEmbedder = load_embedder,
        make_reranker: MakeReranker = load_reranker,
    ) -> None:
        self._keeper = ReplicaKeeper(settings)
        super().__init__(settings, make_embedder, make_reranker)

    def _following(self, make_embedder: MakeEmbedder, make_reranker: MakeReranker) -> Follower:
        return ReplicaFollower(self._settings, make_embedder, make_reranker, self._keeper)

    def start(self) -> None:
        """Begin to fetch and to load. Returns at once."""
        self._keeper.start()
        super().start()

    def close(self) -> None:
        """Stop following the index and its address."""
        self._keeper.close()
        super().close()

    def status(self) -> dict[str, Any]:
        """Return what is being served; `reason` also says what keeps the copy from being in step with its address."""
        status = super().status()
        if reason := self._keeper.reason:
            if "generation" in status:
                reason += f"; meanwhile generation {status['generation']} is served"
            status |= {"reason": reason, "missing": False}
        return status

    def _serving(self, collection: str) -> Retriever:
        try:
            return super()._serving(collection)
        except NotReady as error:
            raise NotReady(self._keeper.reason or str(error)) from error


def retriever_of(settings: Settings) -> LiveRetriever:
    """Return the retriever for an index, wherever it is. Raises StoreAddressError if its address cannot be used."""
    return ReplicaRetriever(settings) if is_url(settings.index) else LiveRetriever(settings)


def ready_copy(settings: Settings, verb: str) -> None:
    """Fetch a copy of the index for a verb that reads it; do nothing for a verb that reads none.

    Raises:
        SettingsError: the verb writes an index, which is not done at an address.
        PilotlightError: the copy cannot be made and there is none from before; if there is, a warning is printed.
    """
    if settings.store:
        raise SettingsError(f"--store is not for an index at an address, {settings.index}: name one or the other")
    if verb in _WRITE:
        raise SettingsError(
            f"{verb} works on an index in a folder, not on {settings.index}; "
            "name the folder, and publish it there with: pilotlight push"
        )
    if verb in _FOLLOWED:
        RemoteCollection(settings.index)  # the server goes on by itself; what will never work is told now
    if verb not in _READ:
        return
    try:
        _replica_of(settings).update()
    except PilotlightError as error:
        if (here := live_id(settings.collection_dir)) is None:
            raise
        print(f"pilotlight: warning: {error}; using generation {here}, fetched earlier", file=sys.stderr)


def _replica_of(settings: Settings) -> Replica:
    return Replica(RemoteCollection(settings.index), settings.index_dir, keep=settings.keep_generations)
