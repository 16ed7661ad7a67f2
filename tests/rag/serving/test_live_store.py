"""Following a store on another machine: what a running server does when it goes, hangs, comes back or changes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from rag import deadline
from rag.errors import DeadlinePassed, FingerprintMismatch, NotReady
from rag.query.request import MODES, SearchRequest
from rag.serving.live import LiveRetriever
from rag.serving.store_access import Publisher, check_servable, milvus_at, roll_back
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import wait_for
from tests.rag.explanations import about, recomputed


@pytest.fixture
def place(fresh_milvus):
    return fresh_milvus.place("docs")


@pytest.fixture
def live(place, tmp_path, monkeypatch):
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    settings = load({"index": str(tmp_path / "nothing"), "store": place}, {})
    retriever = LiveRetriever(settings, lambda settings: DummyEmbedder())
    yield retriever
    retriever.close()


@pytest.fixture
def publish(site, place):
    """Build a generation, and copy it to the store; gives its id."""

    def build(embedder=None, keep=2):
        site.build(embedder)
        with closing(milvus_at(place)) as store:
            publisher = Publisher(store, keep=keep, quiet=True)
            publisher(site.index)
        return publisher.done["generation"]

    return build


def is_away(live):
    return not live.ready and "milvus://" in live.status()["reason"]


def test_what_is_published_is_served(live, place, publish):
    live.start()
    wait_for(lambda: live.status()["reason"] and "loading" not in live.status()["reason"])
    assert not live.ready
    first = publish()
    wait_for(lambda: live.ready)
    answer = live.search(SearchRequest("dead tuples", k=1))
    assert (answer.generation, answer.hits[0].title) == (first, "Vacuum")
    for mode in MODES:
        for hit in live.search(SearchRequest("dead tuples of rows", mode=mode, explain=True)).hits:
            assert recomputed(hit.explanation) == about(hit.score)
            assert {name for name in ("dense", "lexical") if hit.explanation[name]} == {"dense", "lexical"} - {
                {"dense": "lexical", "lexical": "dense"}.get(mode)
            }
    assert live.document(answer.hits[0].document)["title"] == "Vacuum"
    assert len(list(live.documents())) == live.describe()["documents"] == 3
    second = publish()
    wait_for(lambda: live.status()["generation"] == second)
    with closing(milvus_at(place)) as store:
        roll_back(store)
    wait_for(lambda: live.status()["generation"] == first)


def test_a_store_that_is_not_there_at_the_start(live, fresh_milvus, publish):
    generation = publish()
    fresh_milvus.kill()
    live.start()
    wait_for(lambda: is_away(live))
    with pytest.raises(NotReady, match="milvus://"):
        live.search(SearchRequest("vacuum"))
    fresh_milvus.start()
    wait_for(lambda: live.ready)
    assert live.search(SearchRequest("vacuum", k=1)).generation == generation


def test_a_store_that_goes_and_comes_back(live, fresh_milvus, publish):
    generation = publish()
    live.start()
    wait_for(lambda: live.ready)
    for _ in range(2):
        fresh_milvus.kill()
        wait_for(lambda: is_away(live))
        with pytest.raises(NotReady, match="milvus://"):
            live.search(SearchRequest("vacuum"))
        fresh_milvus.start()
        wait_for(lambda: live.ready)
        assert live.search(SearchRequest("vacuum", k=1)).generation == generation
    assert live.status()["reason"] == ""


def test_a_store_that_hangs_keeps_no_query_beyond_its_deadline(live, fresh_milvus, publish):
    publish()
    live.start()
    wait_for(lambda: live.ready)
    fresh_milvus.hang()

    def ask():
        deadline.begin(1.0)
        with pytest.raises((NotReady, DeadlinePassed)):
            live.search(SearchRequest("vacuum"))

    with ThreadPoolExecutor(8) as pool:
        for asked in [pool.submit(ask) for _ in range(16)]:
            asked.result(timeout=60)
    wait_for(lambda: is_away(live))
    fresh_milvus.wake()
    wait_for(lambda: live.ready)
    assert live.search(SearchRequest("vacuum", k=1)).hits


def test_no_query_fails_while_aliases_are_switched(live, site, publish):
    publish()
    live.start()
    wait_for(lambda: live.ready)
    seen, failures, stop = set(), [], threading.Event()

    def ask():
        while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
            try:
                seen.add(live.search(SearchRequest("partial index", k=3)).generation)
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(4):
        (site.source / "new.md").write_text(f"# New {turn}\n\nfresh page number {turn}\n", encoding="utf-8")
        generation = publish(keep=1)  # the collection that is being searched goes at once
        wait_for(lambda wanted=generation: wanted in seen or failures)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_generation_of_another_model_is_not_served(live, place, site, publish):
    good = publish()
    live.start()
    wait_for(lambda: live.ready)
    publish(DummyEmbedder(name="other"))
    wait_for(lambda: "another embedder" in live.status()["reason"])
    assert live.search(SearchRequest("vacuum")).generation == good


def test_what_is_checked_before_a_server_starts(place, fresh_milvus, publish, capsys):
    settings, ours = load({"store": place}, {}), DummyEmbedder().fingerprint
    publish(DummyEmbedder(name="other"))
    with pytest.raises(FingerprintMismatch, match="another embedder"):
        check_servable(settings, ours)
    publish()
    check_servable(settings, ours)
    assert capsys.readouterr().err == ""
    fresh_milvus.kill()
    check_servable(settings, ours)
    assert "the server starts, and will answer once the store does" in capsys.readouterr().err
