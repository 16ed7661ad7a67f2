"""Following the index: what a running server does when generations come, are broken, do not fit, or change back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from indexer.publish.archive import export_archive, import_archive
from indexer.publish.collections import drop_collection
from indexer.publish.publish import roll_back
from rag.errors import CollectionMissing, NotReady
from rag.query.request import SearchRequest
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import wait_for


def collection(live, name):
    return next((item for item in live.status()["collections"] if item["name"] == name), None)


def test_ready_when_an_index_appears(site, live):
    live.start()
    wait_for(lambda: "no index" in live.status()["reason"])
    with pytest.raises(NotReady, match="no index"):
        live.search(SearchRequest("vacuum"))
    generation = site.build()
    wait_for(lambda: live.ready)
    status = live.status()
    assert (status["reason"], status["generation"], status["documents"]) == ("", generation, 3)
    assert live.search(SearchRequest("vacuum", k=1)).hits[0].title == "Vacuum"


def test_a_query_waits_for_a_process_that_is_starting(site):
    go, generation = threading.Event(), site.build()

    def slowly(settings):
        assert go.wait(30)
        return DummyEmbedder()

    live = LiveRetriever(load({"index": str(site.index)}, {}), slowly)
    with pytest.raises(NotReady, match="loading"):
        live.search(SearchRequest("vacuum"))  # not started, so there is nothing to wait for
    live.start()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(live.search, SearchRequest("vacuum", k=1))
        assert not live.ready
        go.set()
        assert answer.result(timeout=30).generation == generation
    live.close()


def test_no_query_fails_while_generations_are_swapped(site, live):
    site.build()
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
    for turn in range(4):  # more than are kept, so that folders in use are deleted
        (site.source / "new.md").write_text(f"# New {turn}\n\nfresh page number {turn}\n", encoding="utf-8")
        generation = site.build()
        wait_for(lambda wanted=generation: wanted in seen or failures)
    seen.clear()
    older = roll_back(site.index)
    wait_for(lambda: older in seen or failures)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_broken_generation_leaves_the_good_one_serving(site, live):
    good = site.build()
    live.start()
    wait_for(lambda: live.ready)
    bad = site.publish_broken()
    wait_for(lambda: "vectors.faiss" in live.status()["reason"])
    assert live.search(SearchRequest("vacuum", k=1)).generation == good != bad
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert live.status()["reason"] == ""


@pytest.mark.parametrize("broken", ["vectors.faiss", "CURRENT"])
def test_a_server_that_starts_on_a_broken_generation_serves_the_one_before(site, live, broken):
    good, bad = site.build(), site.build()
    path = site.index / "CURRENT" if broken == "CURRENT" else site.index / "generations" / bad / broken
    path.write_bytes(b"nonsense")
    served = bad if broken == "CURRENT" else good
    live.start()
    assert live.search(SearchRequest("vacuum", k=1)).generation == served
    wait_for(lambda: live.status()["reason"].endswith(f"; meanwhile generation {served} is served"))
    assert broken in live.status()["reason"]
    assert (live.ready, live.status()["generation"]) == (True, served)
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert live.status()["reason"] == ""


def test_a_repaired_generation_is_tried_again(site, live, tmp_path):
    first = site.build()
    export_archive(site.index, tmp_path / "backup.tar")
    path = site.index / "generations" / first / "vectors.faiss"
    path.write_bytes(b"nonsense")
    live.start()
    wait_for(lambda: "vectors.faiss" in live.status()["reason"])
    assert not live.ready
    import_archive(site.index, tmp_path / "backup.tar", keep_generations=2)
    wait_for(lambda: live.ready)
    assert live.status()["generation"] == first


def test_a_generation_of_another_model_is_not_served(site, live):
    good = site.build()
    live.start()
    wait_for(lambda: live.ready)
    site.build(DummyEmbedder(name="other"))
    wait_for(lambda: "another embedder" in live.status()["reason"])
    assert live.search(SearchRequest("vacuum")).generation == good


def test_a_model_that_cannot_be_loaded_is_told(site):
    def broken(settings):
        raise NotReady("the model is not there")

    site.build()
    live = LiveRetriever(load({"index": str(site.index)}, {}), broken)
    live.start()
    with pytest.raises(NotReady, match="the model is not there"):
        live.search(SearchRequest("vacuum"))
    live.close()


# Collections


def test_collections_are_served_beside_one_another(site, live):
    default, manuals = site.build(), site.build(collection="manuals")
    live.start()
    wait_for(lambda: collection(live, "manuals") and collection(live, "manuals")["ready"])
    assert live.search(SearchRequest("vacuum")).generation == default
    assert live.search(SearchRequest("vacuum", collection="manuals")).generation == manuals
    status = live.status()
    assert [item["name"] for item in status["collections"]] == ["default", "manuals"]
    assert status["collections"][1] | {"created_at": ""} == {
        "name": "manuals", "ready": True, "reason": "", "generation": manuals, "created_at": "", "documents": 3,
        "chunks": 3,
    }  # fmt: skip
    with pytest.raises(CollectionMissing, match="no collection 'faq'; there are: default, manuals"):
        live.search(SearchRequest("vacuum", collection="faq"))


def test_collections_come_and_go(site, live):
    site.build()
    live.start()
    wait_for(lambda: live.ready)
    assert collection(live, "manuals") is None
    first = site.build(collection="manuals")
    wait_for(lambda: collection(live, "manuals") and collection(live, "manuals")["ready"])
    second = site.build(collection="manuals")
    wait_for(lambda: collection(live, "manuals")["generation"] == second)
    assert first != second
    drop_collection(site.index, "manuals")
    wait_for(lambda: collection(live, "manuals") is None)
    with pytest.raises(CollectionMissing):
        live.search(SearchRequest("vacuum", collection="manuals"))
    assert live.search(SearchRequest("vacuum")).hits


def test_a_cross_encoder_serves_searches_and_whoever_asks(site):
    site.build()
    settings = load({"index": str(site.index), "rerank_model": "dummy-cross"}, {})
    models = []

    def make(settings):
        models.append(DummyCrossEncoder())
        return models[-1]

    live = LiveRetriever(settings, lambda settings: DummyEmbedder(), make)
    live.start()
    wait_for(lambda: live.ready)
    assert live.status()["rerank_model"] == "dummy-cross"
    assert live.search(SearchRequest("vacuum", rerank=True)).reranked.scored > 0
    texts = [f"{'word ' * (n % 90)}vacuum" for n in range(100)]
    models[0].runs.clear()
    found = live.rerank("vacuum", texts)
    assert found.logits == pytest.approx([1 - 0.01 * (n % 90 + 2) for n in range(100)])
    assert found.tokens == sum(n % 90 + 2 for n in range(100))
    assert len(models[0].runs) > 10  # in turns, for others to come between
    assert len(models) == 1
    assert live.rerank("vacuum", []).logits.shape == (0,)
    live.close()
