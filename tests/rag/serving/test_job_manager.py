"""Jobs, each a real process; two `JobManager` over one folder are two workers of a server."""

import sys

import pytest

from indexer.generation.layout import current_id
from indexer.publish.collections import writer_lock
from indexer.urls import is_below, places
from rag.errors import JobConflict, JobRefused
from rag.serving.jobs import JobManager
from rag.settings import load
from tests.rag.conftest import wait_for

RUNNER = (sys.executable, "-m", "tests.rag.serving.runners")


def ended(jobs, job):
    wait_for(lambda: jobs.get(job["id"])["state"] not in ("running", "cancelling"))
    return jobs.get(job["id"])


@pytest.fixture
def jobs(site):
    allowed = f"https://docs.example/guide/, {site.source}"
    return JobManager(load({"index": str(site.index), "job_sources": allowed}, {}), RUNNER)


def own_only(site):
    return JobManager(load({"index": str(site.index)}, {}), RUNNER)


def test_a_job_builds_and_says_so(site, jobs):
    started = jobs.start(sources=[str(site.source)])
    assert (started["state"], started["sources"], started["collection"]) == ("running", [str(site.source)], "default")
    done = ended(jobs, started)
    assert (done["state"], done["error"], done["report"]["documents"]) == ("done", None, 3)
    assert done["report"]["generation"] == current_id(site.index)
    assert done["progress"] | {"seconds": 0} == {
        "phase": "publishing", "pages": 3, "pages_due": 3, "chunks_embedded": 3, "chunks_waiting": 0, "seconds": 0,
    }  # fmt: skip
    assert done["created_at"] <= done["ended_at"]
    assert jobs.all() == own_only(site).all() == [done]


def test_a_source_that_nothing_can_be_called(site, jobs):
    site.build()
    for source in ("a\0b", "/etc/\0", "http://docs.example/\r\nHost: x", "\ud800", "\x1b[2J"):
        with pytest.raises(JobRefused, match="sources must not contain control characters"):
            jobs.start(sources=[str(site.source), source])


def test_only_allowed_sources_are_read(site, jobs, tmp_path):
    site.build()
    (tmp_path / "secret").mkdir()
    (site.source / "way-out").symlink_to(tmp_path / "secret")
    for source in ("/etc/passwd", str(tmp_path), f"{site.source}/../secret", f"{site.source}/way-out", ""):
        with pytest.raises(JobRefused, match="sources may only name"):
            jobs.start(sources=[source])
    with pytest.raises(JobRefused):
        own_only(site).start(sources=[f"{site.source}/partial.md"])
    assert own_only(site).all() == []
    assert ended(own_only(site), own_only(site).start(sources=[str(site.source)]))["state"] == "done"


@pytest.mark.parametrize(
    ("source", "place", "below"),
    [
        ("https://docs.example/guide", "https://docs.example/guide/", False),
        ("https://docs.example/guide/", "https://docs.example/guide", True),
        ("HTTPS://DOCS.example:443/guide/a", "https://docs.example/guide", True),
        ("https://docs.example/guidebook", "https://docs.example/guide", False),
        ("https://docs.example/guide/../admin", "https://docs.example/guide/", False),
        ("https://docs.example/guide/%2e%2e/admin", "https://docs.example/guide/", False),
        ("http://docs.example/guide/", "https://docs.example/", False),
        ("https://docs.example.evil.example/", "https://docs.example", False),
        ("https://docs.example@evil.example/", "https://docs.example", False),
        ("https://user@docs.example/", "https://docs.example/", False),
        ("https://docs.example:8443/", "https://docs.example/", False),
        ("https://other.example/", "/srv, https://docs.example/, https://other.example", True),
        ("file:///etc/passwd", "https://docs.example/, /", False),
        ("/srv/docs", "/srv/docs/", True),
        ("/srv/docs2", "/srv/docs", False),
        ("/srv/docs/../keys", "/srv/docs", False),
        ("/srv/docs", "", False),
        ("/srv/docs", " , ", False),
    ],
)
def test_what_lies_below(source, place, below):
    assert is_below(source, places(place)) is below


def hold_up(site, jobs):
    (site.source / "stop-here").touch()
    job = jobs.start(sources=[str(site.source)])
    wait_for((site.source / "held-up").exists)
    return job


def test_one_at_a_time(site, jobs):
    site.build()
    job = hold_up(site, jobs)
    with pytest.raises(JobConflict, match=f"job {job['id']} is running"):
        own_only(site).start(sources=[str(site.source)])
    (site.source / "stop-here").unlink()
    assert ended(jobs, job)["state"] == "done"
    with writer_lock(site.index), pytest.raises(JobConflict, match="another process is writing"):
        jobs.start()


def test_cancel_leaves_the_index_as_it_is(site, jobs):
    generation = site.build()
    job = hold_up(site, jobs)
    other = own_only(site)  # a worker that has not begun it
    assert other.cancel(job["id"])["state"] in ("cancelling", "cancelled")
    cancelled = ended(other, job)
    assert (cancelled["state"], cancelled["error"], cancelled["report"]) == ("cancelled", None, None)
    assert current_id(site.index) == generation
    with pytest.raises(JobConflict, match="has ended"):
        other.cancel(job["id"])


def test_a_process_that_dies(site, jobs):
    (site.source / "crash").touch()
    job = ended(jobs, jobs.start(sources=[str(site.source)]))
    assert job["state"] == "failed"
    assert "process died" in job["error"]
    (site.source / "crash").unlink()
    assert ended(jobs, jobs.start(sources=[str(site.source)]))["state"] == "done"
