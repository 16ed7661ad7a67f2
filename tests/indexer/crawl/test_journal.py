"""A crawl that was killed goes on where it was: pages are not fetched twice."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from indexer.crawl import answers as module
from indexer.crawl.answers import Answer, Journal, base_of
from indexer.generation.generation import Generation
from indexer.generation.layout import BUILDING, JOURNAL
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, page

PAGES = 25  # fewer than links are followed
BUILD = """
import sys
from pathlib import Path
from indexer.pipeline.build import build
from indexer.config import BuildConfig, CrawlLimits
from indexer.pipeline.progress import Progress
from tests.dummy import DummyEmbedder
config = BuildConfig(crawl=CrawlLimits(allow_private=True, concurrency=2))
build([sys.argv[1]], Path(sys.argv[2]), DummyEmbedder(), config, progress=Progress(sys.stderr, "quiet"))
"""


def answer(body: bytes = b"text", url: str = "http://a.test/") -> Answer:
    headers = httpx.Headers(
        [
            (b"ETag", b'"1"'),
            (b"X-Robots-Tag", b"nofollow"),
            (b"X-Robots-Tag", b"noarchive"),
            (b"X-\xff", b"\xd9\xa3 \x80"),  # servers send anything
        ]
    )
    return Answer(url, body, "text/html", "utf-8", headers, "2026-11-21T00:00:00+00:00")


@pytest.fixture
def chained(site: Site) -> Site:
    """A site in which each page is only found on the one before it."""
    for number in range(PAGES):
        link = f"<a href='/p{number + 1}'>next</a>" if number + 1 < PAGES else ""
        site.routes[f"/p{number}"] = page(f"<h1>Page {number}</h1><p>The words of page {number}. {link}</p>")
    return site


def test_a_killed_crawl_is_not_begun_again(chained: Site, tmp_path: Path) -> None:
    reached, index = threading.Event(), tmp_path / "index"
    last = chained.routes["/p15"]

    def wait_there(handler: object) -> None:
        reached.set()
        chained.stopping.wait(30)

    chained.routes["/p15"] = wait_there
    line = [sys.executable, "-c", BUILD, f"{chained.url}/p0", str(index)]
    child = subprocess.Popen(line, cwd=Path(__file__).parents[3])
    assert reached.wait(60)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = [path for path in chained.hits if path.startswith("/p")]
    assert before == [f"/p{number}" for number in range(16)]

    chained.routes["/p15"] = last
    chained.hits.clear()
    subprocess.run(line, check=True, cwd=Path(__file__).parents[3])
    assert [path for path in chained.hits if path.startswith("/p")] == [f"/p{number}" for number in range(15, PAGES)]
    generation = Generation.open(index)
    assert generation.manifest.counts.documents == PAGES
    assert list((index / BUILDING).iterdir()) == []


def test_what_a_redirect_led_to_is_checked_again(site: Site, work: Work) -> None:
    site.routes["/"] = page("<p>Start of a site with <a href='/there'>a page</a> elsewhere.</p>")
    site.routes["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
    (work.index / BUILDING).mkdir(parents=True)
    (work.index / "lock").touch()
    left = Journal(work.index / BUILDING / JOURNAL, base_of(None, ()))
    left.put(f"{site.url}/there", answer(page("<p>what robots may not see</p>").encode(), f"{site.url}/secret"))
    left.close()
    report = work.build(f"{site.url}/")
    assert report.documents == 1
    assert any("robots.txt" in group.reason for group in report.skipped)


def test_an_answer_comes_back_whole_while_it_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / JOURNAL
    journal = Journal(path, "g1")
    assert journal.get("http://a.test/x") is None
    assert not path.exists()
    journal.put("http://a.test/x", answer())
    journal.close()
    journal = Journal(path, "g1")
    found = journal.get("http://a.test/x")
    assert found == replace(answer(), is_fresh=False)
    assert found.headers.get_list("X-Robots-Tag") == ["nofollow", "noarchive"]
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + module.FRESH + 60)
    assert journal.get("http://a.test/x") is None
    assert Journal(path, "g2").get("http://a.test/x") is None, "over another generation"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"nonsense" * 600, json.dumps({}).encode()])
def test_a_damaged_file_is_only_a_saving_lost(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / JOURNAL
    path.write_bytes(content)
    journal = Journal(path, "g1")
    assert journal.get("http://a.test/x") is None
    journal.put("http://a.test/x", answer())
    assert journal.get("http://a.test/x") == answer()
    journal.drop()
    assert list(tmp_path.iterdir()) == []
