"""A store on another machine: publishing to it, and what a running server does when it goes, comes back or changes."""

import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from indexer.errors import IndexMissing, StoreUnreachable
from indexer.generation.manifest import current_id
from indexer.pipeline.progress import Progress
from rag.commands.generations import rollback
from rag.commands.generations import verify as verify_verb
from rag.commands.indexing import IndexRequest, index_sources
from rag.errors import FingerprintMismatch, NotPublished, NotReady
from rag.query.request import SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from rag.stores import Publisher, check_servable, milvus_at, roll_back
from tests.dummy import DummyEmbedder
from tests.waiting import wait_for


def quiet():
    return Progress(sys.stderr, quiet=True)


@pytest.fixture
def place(fresh_milvus):
    return fresh_milvus.place("docs")


@pytest.fixture
def target(place):
    with closing(milvus_at(place)) as store:
        yield store


@pytest.fixture
def live(place, tmp_path, monkeypatch):
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    monkeypatch.setattr("rag.serving.follower.RETRY_SECONDS", 0.1)
    settings = load({"index": str(tmp_path / "nothing"), "store": place}, {})
    retriever = LiveRetriever(Follower(settings, lambda settings: DummyEmbedder()))
    yield retriever
    retriever.close()


@pytest.fixture
def settings(site, place, monkeypatch):
    monkeypatch.setattr("rag.commands.models.lazy_embedder", lambda settings, quiet: DummyEmbedder())
    return load({"index": str(site.index), "store": place}, {})


def publish(site, target, keep=2):
    publisher = Publisher(target, keep=keep, quiet=True)
    publisher(site.index)
    return publisher.done


def add_page(site, turn=0):
    (site.source / "new.md").write_text(f"# New {turn}\n\nfresh page number {turn}\n", encoding="utf-8")
    return site.build()


def ids_of(store):
    return [each.id for each in store.published()]


def test_what_is_published_is_served(live, site, target):
    live.start()
    wait_for(lambda: live.status()["reason"] and "loading" not in live.status()["reason"])
    assert not live.ready
    first = site.build()
    publish(site, target)
    wait_for(lambda: live.ready)
    answer = live.search(SearchRequest("dead tuples", k=1))
    assert (answer.generation, answer.hits[0].title) == (first, "Vacuum")
    assert live.search(SearchRequest("dead tuples", k=1, collections="*")).hits == answer.hits
    assert live.open_document(answer.hits[0].document).facts["title"] == "Vacuum"
    assert len(list(live.documents())) == live.describe()["documents"] == 3
    second = add_page(site)
    publish(site, target)
    wait_for(lambda: live.status()["generation"] == second)
    roll_back(target)
    wait_for(lambda: live.status()["generation"] == first)


def test_a_store_that_is_not_there_at_the_start(live, fresh_milvus, site, target):
    generation = site.build()
    publish(site, target)
    fresh_milvus.kill()
    live.start()
    wait_for(lambda: not live.ready and "milvus://" in live.status()["reason"])
    with pytest.raises(NotReady, match="milvus://"):
        live.search(SearchRequest("vacuum"))
    fresh_milvus.start()
    wait_for(lambda: live.ready)
    assert live.search(SearchRequest("vacuum", k=1)).generation == generation


def test_what_is_checked_before_a_server_starts(site, target, fresh_milvus, settings, capsys):
    ours = DummyEmbedder().fingerprint
    site.build(DummyEmbedder(name="other"))
    publish(site, target)
    with pytest.raises(FingerprintMismatch, match="another embedder"):
        check_servable(settings, ours)
    site.build()
    publish(site, target)
    capsys.readouterr()
    check_servable(settings, ours)
    assert capsys.readouterr().err == ""
    fresh_milvus.kill()
    check_servable(settings, ours)
    assert "the server starts, and will answer once the store does" in capsys.readouterr().err


def test_what_is_live_already_is_not_written_again_and_older_ones_are_removed(site, target):
    for turn in range(3):
        newest = add_page(site, turn)
        assert publish(site, target, keep=1)["copied"]
        assert publish(site, target, keep=1) == {"generation": newest, "target": target.name, "copied": False}
    assert ids_of(target) == [newest]


KILLED = """
import sys, threading
from pathlib import Path

from indexer.generation.previous import scan
from rag import stores as publisher
from rag.stores import milvus_at

def stop(*place):
    yield next(iter(scan(*place)))
    print("midway", flush=True)
    threading.Event().wait()

publisher.scan = stop
publisher.Publisher(milvus_at(sys.argv[2]), keep=2, quiet=True)(Path(sys.argv[1]))
"""


def test_a_process_that_is_killed_midway(site, target, place):
    old = site.build()
    publish(site, target)
    newest = add_page(site)
    line = [sys.executable, "-c", KILLED, str(site.index), place]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "midway\n"
        os.kill(process.pid, signal.SIGKILL)
    assert (target.live_id(), ids_of(target)) == (old, [old])
    assert publish(site, target)["copied"]
    assert (target.live_id(), ids_of(target)) == (newest, [newest, old])


def test_a_build_that_cannot_be_published_is_kept(site, settings, target, monkeypatch):
    def refuse(*_):
        raise StoreUnreachable("nobody answers")

    with monkeypatch.context() as patch:
        patch.setattr(type(target), "write", refuse)
        with pytest.raises(NotPublished, match=r"nobody answers; the build is complete.*the next index with --store"):
            index_sources(IndexRequest([str(site.source)]), settings, quiet, quiet=True)
    report, _ = index_sources(IndexRequest(), settings, quiet, quiet=True)
    assert (report["published"], report["store"]["copied"]) == (False, True)
    assert report["store"]["generation"] == current_id(site.index) == target.live_id()


def test_generations_rollback_and_verification_of_a_store(site, target, settings):
    with pytest.raises(IndexMissing):
        rollback(settings, None)
    older = site.build()
    publish(site, target)
    newest = add_page(site)
    publish(site, target)
    target.close()
    listed, table = rollback(settings, None, only_list=True)
    assert [(item["id"], item["live"]) for item in listed["generations"]] == [(newest, True), (older, False)]
    assert older in table
    report, _ = rollback(settings, None)
    assert (report["before"], report["generation"], target.live_id()) == (newest, older, older)
    with pytest.raises(IndexMissing, match="no generation older"):
        rollback(settings, None)
    with pytest.raises(IndexMissing, match="no generation 'x'"):
        rollback(settings, "x")
    assert rollback(settings, newest)[0]["generation"] == newest
    report, text = verify_verb(settings)
    assert (report["ok"], report["generation"]) == (True, newest)
    assert text.endswith("is intact")
    with pytest.raises(IndexMissing):
        verify_verb(settings, generation="20200101T000000-000000")
