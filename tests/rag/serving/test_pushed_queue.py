"""Documents that are pushed, indexed by a real process, which is killed now and then."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexer.generation.generation import Generation
from indexer.generation.layout import collection_dir
from indexer.publish.collections import writer_lock
from indexer.sources.pushed_store import SOURCE, PushedStore
from rag.errors import FingerprintMismatch
from rag.messages import Push
from rag.query.request import SearchRequest
from rag.serving.builds import PushedBuilder
from rag.serving.jobs import PushedQueue
from rag.serving.live import LiveRetriever
from rag.settings import Settings, load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for

RUNNER = (sys.executable, "-m", "tests.rag.serving.runners")


@pytest.fixture
def settings(site: Site) -> Settings:
    return load({"index": str(site.index)}, {})


@pytest.fixture
def queue(settings: Settings) -> Iterator[PushedQueue]:
    queue = PushedQueue(settings, RUNNER)
    yield queue
    queue.close()
    for pid in builders(settings.index_dir):
        os.kill(pid, signal.SIGKILL)


def builders(index: Path) -> list[int]:
    """The processes that index what was pushed to an index: by the variable that they were given."""
    wanted = f"PILOTLIGHT_INDEX={index}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if b"serving.runners" in (folder / "cmdline").read_bytes():
                found += [int(folder.name)] if wanted in (folder / "environ").read_bytes().split(b"\0") else []
        except OSError:  # no process, or not any more
            continue
    return found


def urls(folder: Path) -> set[str]:
    with closing(Generation.open(folder)) as generation:
        return {each["url"] for each in generation.documents() if each["source"] == SOURCE}


def test_what_is_pushed_is_found(site: Site, settings: Settings, queue: PushedQueue, live: LiveRetriever) -> None:
    site.build()
    live.start()
    queue.start()
    first = queue.put(Push("https://wiki.test/zebra", "A zebra has stripes."))
    other = queue.put(Push("https://wiki.test/note", "A note.", collection="notes"))
    wait_for(lambda: queue.change(str(first["id"]))["state"] == "indexed")
    wait_for(lambda: queue.change(str(other["id"]), "notes")["state"] == "indexed")
    wait_for(lambda: live.search(SearchRequest("zebra", mode="lexical")).hits)
    [hit] = live.search(SearchRequest("zebra", mode="lexical")).hits
    assert (hit.url, hit.document) == ("https://wiki.test/zebra", first["document"])
    assert urls(collection_dir(site.index, "notes")) == {"https://wiki.test/note"}
    assert len(builders(settings.index_dir)) == 1
    gone = queue.delete("https://wiki.test/zebra")
    wait_for(lambda: queue.change(str(gone["id"]))["state"] == "removed")
    wait_for(lambda: not live.search(SearchRequest("zebra", mode="lexical")).hits)


def test_whoever_is_killed_what_was_accepted_is_indexed(site: Site, settings: Settings, queue: PushedQueue) -> None:
    queue.start()
    sent = set()
    for number in range(12):
        sent.add(queue.put(Push(f"https://wiki.test/{number}", f"Text {number}."))["url"])
        if number % 4 == 3:
            wait_for(lambda: builders(settings.index_dir))
            os.kill(builders(settings.index_dir)[0], signal.SIGKILL)
    wait_for(lambda: not PushedStore(site.index).is_waiting())
    assert urls(site.index) == sent
    assert {change["state"] for change in queue.queue()["changes"]} == {"indexed"}


def test_why_it_waits_is_told(site: Site, settings: Settings, queue: PushedQueue) -> None:
    site.build()
    queue.put(Push("https://wiki.test/a", "Text."))
    with writer_lock(site.index):
        PushedBuilder(settings, lambda settings: DummyEmbedder()).keep(lambda: True, idle=0.3)
    assert "another process is writing" in queue.queue()["error"]
    PushedBuilder(settings, lambda settings: DummyEmbedder()).keep(lambda: False)
    assert (queue.queue()["error"], queue.queue()["queued"]) == (None, 0)


def test_an_index_of_another_model_is_left_alone(site: Site, settings: Settings, queue: PushedQueue) -> None:
    generation = site.build()
    queue.put(Push("https://wiki.test/a", "Text."))
    with pytest.raises(FingerprintMismatch, match="another embedder"):
        PushedBuilder(settings, lambda settings: DummyEmbedder(dimension=32)).build(site.index)
    with closing(Generation.open(site.index)) as live:
        assert live.manifest.id == generation


def test_settings_of_the_index_are_kept(site: Site, settings: Settings, queue: PushedQueue) -> None:
    """Those of the server may be others: nothing is read or cut again for that."""
    site.build()
    queue.put(Push("https://wiki.test/a", "Text."))
    report = PushedBuilder(
        load({"index": str(site.index), "chunk_tokens": 50}, {}), lambda settings: DummyEmbedder()
    ).build(site.index)
    assert (report.fetched, report.embedded, report.documents) == (1, 1, 4)
    with closing(Generation.open(site.index)) as live:
        assert live.manifest.settings["chunk"]["tokens"] == 200
