"""Following the index: what a running server does when generations come, are broken, or do not fit."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag.errors import NotReady
from rag.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        threading.Event().wait(0.01)


@pytest.fixture
def live(site, monkeypatch):
    monkeypatch.setattr("rag.live.POLL_SECONDS", 0.02)
    retriever = LiveRetriever(load({"index": str(site.index)}, {}), lambda settings: DummyEmbedder())
    yield retriever
    retriever.close()


def test_ready_when_an_index_appears(site, live):
    live.start()
    wait_for(lambda: "no index" in live.status()["reason"])
    with pytest.raises(NotReady, match="no index"):
        live.search("vacuum")
    generation = site.build()
    wait_for(lambda: live.ready)
    status = live.status()
    assert (status["reason"], status["generation"], status["documents"]) == ("", generation, 3)
    assert live.search("vacuum", k=1).hits[0].title == "Vacuum"


def test_a_query_waits_for_a_process_that_is_starting(site):
    go, generation = threading.Event(), site.build()

    def slowly(settings):
        assert go.wait(30)
        return DummyEmbedder()

    live = LiveRetriever(load({"index": str(site.index)}, {}), slowly)
    with pytest.raises(NotReady, match="loading"):
        live.search("vacuum")  # not started, so there is nothing to wait for
    live.start()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(live.search, "vacuum", k=1)
        assert not live.ready
        go.set()
        assert answer.result(timeout=30).generation == generation
    live.close()


def test_the_wait_for_loading_is_bounded(site, monkeypatch):
    monkeypatch.setattr("rag.live.LOADING_SECONDS", 0.01)
    go = threading.Event()
    site.build()

    def slowly(settings):
        assert go.wait(30)
        return DummyEmbedder()

    live = LiveRetriever(load({"index": str(site.index)}, {}), slowly)
    live.start()
    with pytest.raises(NotReady, match="loading"):
        live.search("vacuum")
    go.set()
    live.close()


def test_no_query_fails_while_generations_are_swapped(site, live):
    site.build()
    live.start()
    wait_for(lambda: live.ready)
    seen, failures, stop = set(), [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                seen.add(live.search("partial index", k=3).generation)
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(4):  # more than are kept, so that folders in use are deleted
        (site.source / "new.md").write_text(f"# New {turn}\n\nfresh page number {turn}\n", encoding="utf-8")
        generation = site.build()
        wait_for(lambda wanted=generation: wanted in seen or failures)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_broken_generation_leaves_the_good_one_serving(site, live):
    good = site.build()
    live.start()
    wait_for(lambda: live.ready)
    bad = site.build()
    (site.index / "generations" / bad / "vectors.faiss").write_bytes(b"nonsense")
    wait_for(lambda: "vectors.faiss" in live.status()["reason"] or live.status()["generation"] == bad)
    if live.status()["generation"] == good:
        assert live.search("vacuum", k=1).generation == good
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert live.status()["reason"] == ""


def test_a_generation_of_another_model_is_not_served(site, live):
    good = site.build()
    live.start()
    wait_for(lambda: live.ready)
    site.build(DummyEmbedder(name="other"))
    wait_for(lambda: "another embedder" in live.status()["reason"])
    assert live.search("vacuum").generation == good
