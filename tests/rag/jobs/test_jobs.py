"""Jobs and documents that are pushed, each done by a real process; two managers over one folder are two workers."""

import errno
import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from indexer.generation.generation import Generation
from indexer.generation.manifest import collection_dir, current_id
from indexer.publish.publish import writer_lock
from indexer.sources.pushed_store import SOURCE, PushedStore
from rag.commands.jobs import run_job
from rag.errors import FingerprintMismatch, JobConflict, RequestRefused, StorageFull
from rag.jobs.builds import PushedBuilder
from rag.jobs.jobs import CANCEL, END, JOB, JobManager
from rag.jobs.pushes import PushedQueue
from rag.messages import Push
from rag.query.request import SearchRequest
from rag.serving.live import LiveRetriever
from rag.settings import Settings, load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site
from tests.waiting import wait_for

RUNNER = (sys.executable, "-m", "tests.rag.jobs.runners")


def ended(jobs, job):
    wait_for(lambda: jobs.get(job["id"])["state"] not in ("running", "cancelling"))
    return jobs.get(job["id"])


@pytest.fixture
def jobs(site):
    return JobManager(load({"index": str(site.index)}, {}), RUNNER)


@pytest.fixture
def other(site):
    """A worker that has not begun the job."""
    return JobManager(load({"index": str(site.index)}, {}), RUNNER)


def test_a_job_builds_and_says_so(site, jobs, other):
    for name, error in {"default": JobConflict, "gone": JobConflict, "../x": RequestRefused}.items():
        with pytest.raises(error, match=r"has no sources|not a valid"):
            jobs.start(name)
    site.build()
    started = jobs.start(full=True)
    assert (started["state"], started["full"], started["collection"]) == ("running", True, "default")
    done = ended(jobs, started)
    assert (done["state"], done["error"], done["report"]["documents"]) == ("done", None, 3)
    assert done["report"]["generation"] == current_id(site.index)
    assert done["created_at"] <= done["ended_at"]
    assert jobs.all() == other.all() == [done]


def hold_up(site, jobs):
    (site.source / "stop-here").touch()
    job = jobs.start()
    wait_for((site.source / "held-up").exists)
    return job


def test_one_at_a_time(site, jobs, other):
    site.build()
    job = hold_up(site, jobs)
    with pytest.raises(JobConflict, match=f"job {job['id']} is running"):
        other.start()
    (site.source / "stop-here").unlink()
    assert ended(jobs, job)["state"] == "done"
    with writer_lock(site.index), pytest.raises(JobConflict, match="another process is writing"):
        jobs.start()


def test_many_who_start_a_job_at_once_are_answered_at_once(site, jobs):
    """Also while pushed documents are indexed: each start waited for half a minute, one after the other."""
    site.build()
    with ThreadPoolExecutor(40) as pool:
        with writer_lock(site.index, is_brief=True):
            refused = [pool.submit(jobs.start) for _ in range(40)]
            assert {type(each.exception(10)) for each in refused} == {JobConflict}
        (site.source / "stop-here").touch()
        begun = [pool.submit(jobs.start) for _ in range(40)]
        assert sorted(type(each.exception(30)).__name__ for each in begun) == ["JobConflict"] * 39 + ["NoneType"]
    (site.source / "stop-here").unlink()
    assert ended(jobs, jobs.all()[0])["state"] == "done"


def test_a_full_disk_is_told_and_leaves_nothing_of_a_job(site, jobs, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    site.build()
    with monkeypatch.context() as patch:
        patch.setattr("rag.jobs.jobs.write", full)
        with pytest.raises(StorageFull, match="the disk is full"):
            jobs.start()
    assert jobs.all() == []
    assert [path.name for path in (site.index / "jobs").iterdir()] == ["lock"]
    assert ended(jobs, jobs.start())["state"] == "done"


def test_a_job_that_was_cancelled_before_it_could_be_interrupted_ends(tmp_path):
    (tmp_path / JOB).write_text("{}")
    (tmp_path / CANCEL).touch()
    assert run_job(tmp_path, lambda job: pytest.fail("it was cancelled")) == 130
    assert json.loads((tmp_path / END).read_text())["state"] == "cancelled"


def test_cancel_leaves_the_index_as_it_is(site, jobs, other):
    generation = site.build()
    job = hold_up(site, jobs)
    assert other.cancel(job["id"])["state"] in ("cancelling", "cancelled")
    cancelled = ended(other, job)
    assert (cancelled["state"], cancelled["error"], cancelled["report"]) == ("cancelled", None, None)
    assert current_id(site.index) == generation
    with pytest.raises(JobConflict, match="has ended"):
        other.cancel(job["id"])


def test_a_process_that_dies(site, jobs, monkeypatch):
    monkeypatch.setattr("rag.jobs.jobs.MAX_ENDED_JOBS", 1)
    site.build()
    (site.source / "crash").touch()
    job = ended(jobs, jobs.start())
    assert job["state"] == "failed"
    assert "process died" in job["error"]
    (site.source / "crash").unlink()
    assert ended(jobs, jobs.start())["state"] == "done"
    assert len(jobs.all()) == len(list((site.index / "jobs").glob("2*"))) == 1, "others are forgotten"


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
            if b"jobs.runners" in (folder / "cmdline").read_bytes():
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


def test_of_two_writers_of_a_new_address_one_is_told(queue: PushedQueue, settings: Settings) -> None:
    other = PushedQueue(settings, RUNNER)

    def push(sender: PushedQueue, url: str) -> str:
        try:
            sender.put(Push(url, f"By {id(sender)}.", replace=False))
        except JobConflict as error:
            return str(error)
        return "accepted"

    with ThreadPoolExecutor(2) as pool:
        for number in range(60):
            url = f"https://wiki.test/{number}"
            said = sorted(pool.map(push, (queue, other), (url, url)))
            assert said == ["accepted", f"{url} already has a document, and `replace` is false"]
    queue.put(Push("https://wiki.test/0", "In its place."))
    queue.delete("https://wiki.test/1")
    assert push(other, "https://wiki.test/1") == "accepted"


def test_why_it_waits_is_told(site: Site, settings: Settings, queue: PushedQueue) -> None:
    site.build()
    queue.put(Push("https://wiki.test/a", "Text."))
    with writer_lock(site.index):
        PushedBuilder(settings, lambda settings: DummyEmbedder()).run_until_idle(lambda: True, idle=0.3)
    assert "another process is writing" in queue.queue()["error"]
    PushedBuilder(settings, lambda settings: DummyEmbedder()).run_until_idle(lambda: False)
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
