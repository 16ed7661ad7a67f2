import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indexer.generation.manifest import collection_dir
from rag.query.request import SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.building import build_index
from tests.dummy import DummyEmbedder
from tests.waiting import wait_for

PAGES = {
    "partial.md": "# Partial indexes\n\nA partial index covers only the rows of a table that satisfy a predicate.\n",
    "vacuum.md": "# Vacuum\n\nVacuum reclaims the storage that dead tuples occupy.\n",
    "fsync.md": "# Durability\n\nTurning fsync off risks data corruption when power fails.\n",
}


class Site:
    """A folder of pages and an index built from it with the dummy embedder."""

    def __init__(self, root: Path) -> None:
        self.source = root / "source"
        self.index = root / "index"
        self.source.mkdir()
        for name, text in PAGES.items():
            (self.source / name).write_text(text, encoding="utf-8")

    def build(
        self, embedder: DummyEmbedder | None = None, *, collection: str = "default", tokens: bool | None = None
    ) -> str:
        """Build a new generation of a collection and return its id."""
        folder = collection_dir(self.index, collection)
        return build_index(folder, self.source, embedder=embedder, full=True, tokens=tokens).generation


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def live(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveRetriever]:
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    monkeypatch.setattr("rag.serving.follower.RETRY_SECONDS", 0.1)
    retriever = LiveRetriever(Follower(load({"index": str(site.index)}, {}), lambda settings: DummyEmbedder()))
    yield retriever
    retriever.close()


def start(live: LiveRetriever) -> None:
    """Start a retriever, and wait until it can be searched."""
    live.start()
    wait_for(lambda: live.ready)


@contextmanager
def asked_meanwhile(live: LiveRetriever) -> Iterator[tuple[set[str], list[BaseException]]]:
    """Ask from four threads until the end of the block; give the generations that answered, and what failed."""
    seen: set[str] = set()
    failures: list[BaseException] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
            try:
                seen.add(live.search(SearchRequest("partial index", k=3)).generation)
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield seen, failures
    stop.set()
    for thread in threads:
        thread.join()
