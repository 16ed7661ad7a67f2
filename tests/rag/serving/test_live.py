"""Following the index: what a server does when generations come, are broken, damaged, do not fit, or go back."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import ANY

import pytest

from indexer.errors import IndexCorrupt
from indexer.generation.manifest import DOCUMENTS, GENERATIONS, ROWS, VECTORS
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.publish import drop_collection
from indexer.stores import FolderStore
from rag.errors import CollectionMissing, NotReady, NotThere
from rag.query.request import SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from rag.stores import roll_back
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import asked_meanwhile, start
from tests.waiting import wait_for


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
        assert go.wait(300)
        return DummyEmbedder()

    live = LiveRetriever(Follower(load({"index": str(site.index)}, {}), slowly))
    with pytest.raises(NotReady, match="loading"):
        live.search(SearchRequest("vacuum"))  # not started, so there is nothing to wait for
    live.start()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(live.search, SearchRequest("vacuum", k=1))
        assert not live.ready
        go.set()
        assert answer.result(timeout=300).generation == generation
    live.close()


def test_no_query_fails_while_generations_are_swapped(site, live):
    site.build()
    start(live)
    with asked_meanwhile(live) as (seen, failures):
        for turn in range(4):  # more than are kept, so that folders in use are deleted
            (site.source / "new.md").write_text(f"# New {turn}\n\nfresh page number {turn}\n", encoding="utf-8")
            generation = site.build()
            wait_for(lambda wanted=generation: wanted in seen or failures)
        seen.clear()
        older = roll_back(FolderStore(site.index))
        wait_for(lambda: older in seen or failures)
    assert failures == []


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
    start(live)
    site.build(DummyEmbedder(name="other"))
    wait_for(lambda: "another embedder" in live.status()["reason"])
    assert live.search(SearchRequest("vacuum")).generation == good


def test_a_model_that_cannot_be_loaded_is_told(site):
    def broken(settings):
        raise NotReady("the model is not there")

    site.build()
    live = LiveRetriever(Follower(load({"index": str(site.index)}, {}), broken))
    live.start()
    with pytest.raises(NotReady, match="the model is not there"):
        live.search(SearchRequest("vacuum"))
    live.close()


def test_collections_come_and_go(site, live):
    default = site.build()
    start(live)
    assert collection(live, "manuals") is None
    first = site.build(collection="manuals")
    wait_for(lambda: collection(live, "manuals") and collection(live, "manuals")["ready"])
    assert live.search(SearchRequest("vacuum")).generation == default
    assert live.search(SearchRequest("vacuum", collection="manuals")).generation == first
    assert collection(live, "manuals") | {"created_at": ""} == {
        "name": "manuals", "ready": True, "reason": "", "generation": first, "created_at": "", "documents": 3,
        "chunks": 3,
    }  # fmt: skip
    with pytest.raises(CollectionMissing, match="no collection 'faq'; there are: default, manuals"):
        live.search(SearchRequest("vacuum", collection="faq"))
    second = site.build(collection="manuals")
    wait_for(lambda: collection(live, "manuals")["generation"] == second)
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

    live = LiveRetriever(Follower(settings, lambda settings: DummyEmbedder(), make))
    start(live)
    assert live.status()["rerank_model"] == "dummy-cross"
    assert live.search(SearchRequest("vacuum", rerank=True)).reranked.scored > 0
    texts = [f"{'word ' * (n % 90)}vacuum" for n in range(100)]
    models[0].runs.clear()
    scores, tokens = live.rerank("vacuum", texts)
    assert scores == pytest.approx([1 / (1 + math.exp(0.01 * (n % 90 + 2) - 1)) for n in range(100)])
    assert tokens == sum(n % 90 + 2 for n in range(100))
    assert len(models[0].runs) > 10  # in turns, for others to come between
    assert len(models) == 1
    assert live.rerank("vacuum", []) == ([], 0)
    live.close()


def test_a_hit_leads_to_its_document_in_every_generation(site, live):
    site.build()
    live.start()
    hit = live.search(SearchRequest("dead tuples", k=1)).hits[0]
    document, place = live.open_around(hit.id)
    before = document.facts
    assert before == live.open_document(hit.document).facts
    assert (before["title"], before["url"]) == ("Vacuum", hit.url.partition("#")[0])
    assert [passage["text"] for passage in document.passages(place, place + 1)] == [hit.text]
    assert [url for url, _, _ in document.headings()] == [each["url"] for batch in document.batches() for each in batch]
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert live.open_document(hit.document).facts == before | {"generation": newest, "fetched_at": ANY}
    for unknown in ("0" * 32, "", "x", hit.document.upper(), hit.document + "0"):
        with pytest.raises(NotThere, match="there is no document"):
            live.open_document(unknown)
        assert live.open_around(unknown) is None


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:  # in place, as a disk does
        file.write(content)


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


# The mapped files may not be cut, which ends a process that reads them.
@pytest.mark.parametrize(("damage", "name"), [(flip, VECTORS), (flip, ROWS), (cut, DOCUMENTS)])
def test_a_damaged_generation_is_left_for_the_one_before(site, live, monkeypatch, damage, name):
    monkeypatch.setattr("rag.serving.follower.CHECK_SECONDS", 0.05)
    first, second = site.build(), site.build()
    start(live)
    assert live.status()["generation"] == second
    damage(site.index / GENERATIONS / second / name)
    wait_for(lambda: live.status()["generation"] == first and live.status()["reason"])
    assert live.search(SearchRequest("partial index")).generation == first
    status = live.status()
    assert status["ready"]
    assert name in status["reason"]
    assert f"meanwhile generation {first} is served" in status["reason"]


@pytest.mark.parametrize("error", [IndexCorrupt("documents.sqlite: cannot be read"), ValueError("odd bytes")])
def test_a_search_that_meets_damage_has_it_looked_at(site, live, monkeypatch, error):
    monkeypatch.setattr("rag.serving.follower.CHECK_SECONDS", 1e9)  # it is not found by itself
    first, second = site.build(), site.build()
    start(live)
    flip(site.index / GENERATIONS / second / VECTORS)

    def damaged(*_):
        raise error

    monkeypatch.setattr(live.follower.collections["default"].retriever.generation, "chunks", damaged)
    with pytest.raises((NotReady, ValueError), match=r"cannot be read|odd bytes"):
        live.search(SearchRequest("partial index"))
    wait_for(lambda: live.status().get("generation") == first)
