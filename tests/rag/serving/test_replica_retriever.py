"""Serving from an address: what a replica answers while its place is there, out of reach, damaged or empty."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from indexer.errors import StoreUnreachable
from indexer.generation.current import current_id
from indexer.generation.layout import CURRENT, GENERATIONS
from indexer.generation.manifest import MANIFEST, VECTORS, read_manifest
from indexer.publish.collections import live_id
from indexer.publish.lock import writer_lock
from indexer.publish.publish import prepare
from indexer.stores.remote.remote_collection import RemoteCollection, path_of
from indexer.stores.remote.upload import upload
from rag.commands.transfer.push import push
from rag.errors import JobConflict, NotReady, SettingsError
from rag.query.request import SearchRequest
from rag.serving import replica_retriever
from rag.serving.job_manager import JobManager
from rag.serving.live import LiveRetriever
from rag.serving.replica_retriever import ReplicaRetriever, ready_copy, retriever_of
from rag.settings import Settings, load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for
from web.app import create_app


@pytest.fixture
def settings(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a server whose index is in a shared folder, to which `site` is pushed."""
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    return load({"index": f"file://{tmp_path}/shared", "replica_dir": str(tmp_path / "copies"), "poll": "0.05"}, {})


@pytest.fixture
def serve(settings: Settings) -> Iterator[Callable[[], ReplicaRetriever]]:
    started = []

    def start() -> ReplicaRetriever:
        retriever = ReplicaRetriever(settings, lambda _: DummyEmbedder())
        started.append(retriever)
        retriever.start()
        return retriever

    yield start
    for retriever in started:
        retriever.close()


def publish(site: Site, settings: Settings, word: str = "first") -> str:
    (site.source / "new.md").write_text(f"# The {word} page\n\nWhat only the {word} generation says.\n")
    generation = site.build()
    upload(site.index, RemoteCollection(settings.index), keep=2)
    return generation


def test_not_ready_until_the_place_can_be_reached_and_then_by_itself(site, settings, serve):
    replica = serve()
    wait_for(lambda: "there is no folder" in replica.status()["reason"])
    client = create_app(replica, settings).test_client()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json["title"]) == (503, "Service Unavailable")
    assert f"{settings.index}: the store does not answer" in answer.json["detail"]
    assert replica.status()["missing"] is False
    with pytest.raises(NotReady, match="there is no folder"):
        replica.search(SearchRequest("vacuum"))
    assert client.post("/api/v1/search", json={"query": "vacuum"}).status_code == 503
    generation = publish(site, settings)
    wait_for(lambda: client.get("/readyz").status_code == 200)
    assert client.post("/api/v1/search", json={"query": "vacuum"}).json["generation"] == generation
    wait_for(lambda: replica.status()["reason"] == "")


def test_a_query_waits_while_another_process_fetches(site, settings, serve):
    generation = publish(site, settings)
    prepare(settings.index_dir)
    with ThreadPoolExecutor(1) as pool:
        with writer_lock(settings.index_dir):
            replica = serve()
            wait_for(lambda: "another process is fetching the index" in replica.status()["reason"])
            answer = pool.submit(replica.search, SearchRequest("vacuum", k=1))
            wait_for(lambda: answer.running())
        assert answer.result(timeout=30).generation == generation


def test_out_of_reach_with_a_copy_it_serves_that_and_says_so(site, settings, serve, tmp_path, caplog):
    generation = publish(site, settings)
    first = serve()
    wait_for(lambda: first.ready)
    first.close()
    (tmp_path / "shared").rename(tmp_path / "away")
    with caplog.at_level(logging.WARNING, "pilotlight"):
        second = serve()
        wait_for(lambda: second.ready)
        wait_for(lambda: "there is no folder" in second.status()["reason"])
    told = f"meanwhile generation {generation} is served"
    assert second.status()["reason"].endswith(told)
    assert sum("there is no folder" in record.message for record in caplog.records) == 1  # not at every look
    assert second.search(SearchRequest("vacuum", k=1)).generation == generation
    client = create_app(second, settings).test_client()
    assert client.get("/readyz").status_code == 200
    assert told in client.get("/status").text
    (tmp_path / "away").rename(tmp_path / "shared")
    wait_for(lambda: second.status()["reason"] == "")


def test_no_query_fails_while_generations_are_pushed(site, settings, serve):
    publish(site, settings)
    replica = serve()
    wait_for(lambda: replica.ready)
    seen, failures, stop = set(), [], threading.Event()

    def ask() -> None:
        while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
            try:
                seen.add(replica.search(SearchRequest("generation", k=3)).generation)
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for word in ("second", "third", "fourth"):  # more than are kept
        generation = publish(site, settings, word)
        wait_for(lambda wanted=generation: wanted in seen or failures)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_damaged_generation_is_not_served_but_named(site, settings, serve):
    good = publish(site, settings)
    place = RemoteCollection(settings.index)
    (site.source / "new.md").write_text("# Another\n\nAnother text.\n")
    bad = site.build()
    replica = serve()
    wait_for(lambda: replica.ready)
    for name in read_manifest(site.index / GENERATIONS / bad).files:
        place.put(path_of(bad, name), b"damaged" if name == VECTORS else site.index / GENERATIONS / bad / name)
    place.put(path_of(bad, MANIFEST), site.index / GENERATIONS / bad / MANIFEST)
    place.put(CURRENT, f"{bad}\n".encode())
    wait_for(lambda: path_of(bad, VECTORS) in replica.status()["reason"])
    assert replica.search(SearchRequest("vacuum", k=1)).generation == good
    upload(site.index, place, keep=2)
    wait_for(lambda: replica.status()["generation"] == bad)


def test_two_servers_share_a_copy(site, settings, serve):
    publish(site, settings)
    both = [serve(), serve()]
    wait_for(lambda: all(replica.ready for replica in both))
    generation = publish(site, settings, "second")
    wait_for(lambda: all(replica.status()["generation"] == generation for replica in both))
    wait_for(lambda: all(replica.status()["reason"] == "" for replica in both))


def test_an_unforeseen_error_is_said_and_does_not_end_it(site, settings, serve, monkeypatch, caplog):
    failing = [True]
    update = replica_retriever.Replica.update

    def fail(self) -> None:
        if failing[0]:
            raise RuntimeError("boom")
        update(self)

    monkeypatch.setattr(replica_retriever.Replica, "update", fail)
    replica = serve()
    wait_for(lambda: "an internal error while fetching" in replica.status()["reason"])
    publish(site, settings)
    failing[0] = False
    wait_for(lambda: replica.ready)
    assert "boom" in caplog.text


def test_what_is_served_goes_by_the_address(settings, site):
    assert isinstance(retriever_of(settings), ReplicaRetriever)
    assert type(retriever_of(load({"index": str(site.index)}, {}))) is LiveRetriever


def test_copies_of_two_places_are_two_folders(tmp_path):
    folders = {
        load({"index": url, "replica_dir": str(tmp_path)}, {}).index_dir
        for url in ("s3://bucket/a", "s3://bucket/a/", "s3://bucket/b")
    }
    assert len(folders) == 2
    assert {folder.parent for folder in folders} == {tmp_path}
    cached = load({"index": "s3://bucket/a", "cache_dir": str(tmp_path)}, {})
    assert cached.index_dir.parent == tmp_path / "replicas"


def test_a_verb_that_reads_gets_a_copy_first(site, settings, tmp_path, capsys):
    with pytest.raises(StoreUnreachable):
        ready_copy(settings, "search")
    generation = publish(site, settings)
    ready_copy(settings, "search")
    assert current_id(settings.index_dir) == generation
    (tmp_path / "shared").rename(tmp_path / "away")
    ready_copy(settings, "verify")
    assert f"using generation {generation}, fetched earlier" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["index", "remove", "rollback", "import", "drop", "push"])
def test_a_verb_that_writes_is_refused(settings, verb):
    with pytest.raises(SettingsError, match=f"{verb} works on an index in a folder, not on file:///"):
        ready_copy(settings, verb)


def test_jobs_are_refused(settings):
    with pytest.raises(JobConflict, match="this is a copy of file:///"):
        JobManager(settings).start(sources=["https://docs.example.org/"])


def test_push_says_what_it_did(site, settings):
    generation = site.build()
    own = load({"index": str(site.index)}, {})
    report, text = push(own, settings.index, None)
    assert report["generation"] == generation
    assert (report["documents"], report["sent_bytes"], report["removed"]) == (3, report["bytes"], [])
    assert text.startswith(f"generation {generation} is live at {settings.index}: ")
    again, _ = push(own, settings.index, generation)
    assert again["sent_bytes"] == 0
    assert live_id(Path(settings.index.removeprefix("file://"))) == generation
