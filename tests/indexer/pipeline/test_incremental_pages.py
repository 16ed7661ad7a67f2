"""Pages that cannot be read this time, and how a page is found to be unchanged."""

import errno
import hashlib
import os
import subprocess
import sys
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indexer import records
from indexer.config import CrawlLimits
from indexer.errors import SourceError
from indexer.generation.layout import current_id
from indexer.pipeline import workers
from indexer.read.parsing import parse
from indexer.records import Document, Page
from tests.indexer.pipeline.incremental import Versioned, Work, link, routes, zoo
from tests.indexer.server import Reply, Site, page, redirect


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\nhalf")
    handler.close_connection = True


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("500", "HTTP 500"), ("429", "HTTP 429"), ("hang up", "peer closed"), ("slow", "no complete answer within 3 s")],
)
def test_a_page_out_of_reach_is_kept(work: Work, site: Site, fault: str, reason: str) -> None:
    """The list is out of reach as well; the page behind it is still found."""
    pages = zoo(site, "etag")
    first = work.build(site.url)

    def slow(handler: BaseHTTPRequestHandler) -> None:
        site.stopping.wait(20)

    faults: dict[str, Any] = {"500": Reply(b"", 500), "429": Reply(b"", 429), "hang up": hang_up, "slow": slow}
    limits = CrawlLimits(allow_private=True, timeout=3.0 if fault == "slow" else 20.0)
    site.routes |= {"/dogs": faults[fault], "/list": faults[fault]}
    report = work.build(site.url, limits=limits)
    assert [failure.url for failure in report.kept] == [f"{site.url}/dogs", f"{site.url}/list"]
    assert reason in report.kept[0].reason
    assert (report.published, report.failed, report.gone.count, report.unchanged) == (False, (), 0, 3)
    assert "kept         2\n" in report.table()
    pages["cats"].body, pages["cats"].etag = page("<p>Lions roar."), '"cats2"'
    report = work.build(site.url, limits=limits)
    assert (report.published, report.changed.count, len(report.kept), report.embedded) == (True, 1, 2, 1)
    assert work.paths(site) == ["/", "/cats", "/deep", "/dogs"]
    site.routes |= {"/dogs": pages["dogs"], "/list": pages["list"]}
    report = work.build(site.url)
    assert (report.published, report.kept, report.documents) == (False, (), first.documents)
    assert pages["dogs"].sent == 1, "its validators are remembered as well"


def test_a_day_of_no_calendar_is_not_relied_on(work: Work, site: Site) -> None:
    pages = zoo(site, "date")
    pages["dogs"].modified = f"Fri, 31 Dec {'9' * 20} 23:59:59 GMT"
    assert work.build(site.url).failed == ()
    assert work.build(site.url).unchanged == 4
    assert [asked.get("If-Modified-Since") for asked in pages["dogs"].asked] == [None, None]


def test_a_page_out_of_reach_that_was_never_read_is_a_failure(work: Work, site: Site) -> None:
    pages = zoo(site, "etag")
    work.build(site.url)
    pages["dogs"].body, pages["dogs"].etag = page(f"<p>Dogs.{link('new')}"), '"dogs2"'
    site.routes["/new"] = Reply(b"", 503)
    report = work.build(site.url)
    assert [failure.url for failure in report.failed] == [f"{site.url}/new"]
    assert report.kept == ()


def test_a_site_out_of_reach_is_an_error(work: Work, site: Site) -> None:
    zoo(site, "etag")
    live = work.build(site.url).generation
    site.routes["/"] = Reply(b"", 500)
    with pytest.raises(SourceError, match="HTTP 500"):
        work.build(site.url)
    assert current_id(work.index) == live


def test_a_page_behind_a_redirect(work: Work, site: Site) -> None:
    """The validators are those of the page; if the redirect itself is out of reach, the page is known too."""
    pages = routes(
        site,
        index=Versioned(page(f"<p>Start.</p>{link('old')}"), '"i"'),
        new=Versioned(page("<p>Moved here."), '"n"'),
    )
    site.routes["/old"] = redirect("/new", 301)
    work.build(site.url)
    report = work.build(site.url)
    assert (report.published, report.unchanged, pages["new"].sent) == (False, 2, 1)
    site.routes["/old"] = Reply(b"", 503)
    report = work.build(site.url)
    assert [(failure.url, failure.reason) for failure in report.kept] == [(f"{site.url}/new", "HTTP 503")]
    assert not report.published
    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /new\n"
    report = work.build(site.url)
    assert (report.gone.examples, report.failed[0].url) == ([f"{site.url}/new"], f"{site.url}/old")


def test_a_time_that_is_too_fresh_is_no_validator(work: Work, site: Site) -> None:
    """The page may change again within the same second."""
    now = formatdate(usegmt=True)
    pages = routes(site, index=Versioned(page("<p>One."), None, now))
    work.build(site.url)
    pages["index"].body = page("<p>Two.")
    assert work.build(site.url).changed.count == 1


@pytest.mark.parametrize("etag", ['"\xe9"', "", '"a\tb"'])
def test_an_odd_etag_is_not_sent_back(work: Work, site: Site, etag: str) -> None:
    pages = routes(site, index=Versioned(page("<p>One."), etag))
    work.build(site.url)
    assert not work.build(site.url).published
    assert all("If-None-Match" not in headers for headers in pages["index"].asked)


def test_a_304_that_was_not_asked_for_is_a_failure(work: Work, site: Site) -> None:
    zoo(site, "none")
    work.build(site.url)
    site.routes["/dogs"] = Reply(b"", 304)
    report = work.build(site.url)
    assert [(failure.url, failure.reason) for failure in report.failed] == [(f"{site.url}/dogs", "HTTP 304")]


def test_a_page_whose_twin_is_gone_takes_its_place(work: Work, site: Site) -> None:
    pages = routes(
        site,
        index=Versioned(page(f"<p>Start.</p>{link('a', 'b')}"), '"i"'),
        a=Versioned(page("<p>Twin."), '"t"'),
        b=Versioned(page("<p>Twin."), '"t"'),
    )
    assert work.build(site.url).new.count == 2
    assert not work.build(site.url).published
    pages["index"].body, pages["index"].etag = page(f"<p>Start.</p>{link('b')}"), '"i2"'
    report = work.build(site.url)
    assert (report.new.examples, report.gone.examples) == ([f"{site.url}/b"], [f"{site.url}/a"])
    assert report.embedded == 0


def test_the_same_bytes_of_another_type_are_a_change(work: Work, site: Site) -> None:
    site.routes["/"] = Reply(b"# Title\n\n*text*", 200, {"Content-Type": "text/plain"})
    work.build(site.url)
    site.routes["/"] = Reply(b"# Title\n\n*text*", 200, {"Content-Type": "text/markdown"})
    assert work.build(site.url).changed.count == 1
    assert work.content()[f"{site.url}/"][1][0][2] == "text"


def test_only_changed_files_are_parsed(work: Work, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.build(docs)
    parsed: list[str] = []

    def note(page: Page, *given: Any) -> Document:
        parsed.append(page.url)
        return parse(page, *given)

    monkeypatch.setattr(workers, "parse", note)
    (docs / "cats.html").touch()
    assert not work.build(docs).published
    assert parsed == []
    (docs / "dogs.md").write_text((docs / "dogs.md").read_text() + "\n\n## Sleep\n\n" + "At night. " * 12)
    (docs / "notes.txt").unlink()
    (docs / "fish.txt").write_text("Fish swim.")
    report = work.build(docs)
    assert sorted(parsed) == [(docs / "dogs.md").as_uri(), (docs / "fish.txt").as_uri()]
    assert (report.new.count, report.changed.count, report.gone.count, report.unchanged) == (1, 1, 1, 1)
    assert (report.embedded, report.carried) == (2, 4)


@pytest.mark.parametrize(("code", "stays"), [(errno.EIO, True), (errno.ESTALE, True), (errno.EACCES, False)])
def test_files_that_fail_to_be_read(
    work: Work, docs: Path, code: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.build(docs)
    real = os.open

    def fail(path: Any, *args: Any, **kw: Any) -> Any:
        if str(path).endswith("dogs.md"):
            raise OSError(code, "trouble", str(path))
        return real(path, *args, **kw)

    monkeypatch.setattr(os, "open", fail)
    report = work.build(docs)
    assert (len(report.kept), len(report.failed), report.gone.count) == ((1, 0, 0) if stays else (0, 1, 1))
    assert ((docs / "dogs.md").as_uri() in work.content()) is stays


@pytest.mark.parametrize(("code", "stays"), [(errno.EIO, True), (errno.EACCES, False)])
def test_folders_that_fail_to_be_read(
    work: Work, docs: Path, code: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sub", "sub-b", "sub/deep"):
        (docs / name).mkdir()
        (docs / name / "a.txt").write_text(f"Text of {name}.")
    work.build(docs)
    real = os.open

    def fail(path: Any, *args: Any, **kw: Any) -> int:
        if path == "sub":
            raise OSError(code, "trouble", path)
        return real(path, *args, **kw)

    monkeypatch.setattr(os, "open", fail)
    report = work.build(docs)
    assert [failure.url for failure in report.failed] == [(docs / "sub").as_uri()]
    below = [(docs / name).as_uri() for name in ("sub/a.txt", "sub/deep/a.txt")]
    assert [failure.url for failure in report.kept] == (below if stays else [])
    assert report.gone.examples == ([] if stays else below)


def test_looking_up_what_is_known_of_a_page_opens_no_vectors_and_no_words(work: Work, site: Site) -> None:
    zoo(site, "etag")
    work.build(site.url)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from indexer.config import CrawlLimits\n"
        "from indexer.crawl.crawler import crawl\n"
        "from indexer.generation.layout import current_id, generation_folder\n"
        "from indexer.generation.documents import open_read_only\n"
        "from indexer.generation.previous import PreviousGeneration\n"
        "from indexer.generation.manifest import DOCUMENTS, read_manifest\n"
        "from indexer.source_context import SourceContext\n"
        "folder = generation_folder(Path(sys.argv[1]), current_id(Path(sys.argv[1])))\n"
        "earlier = PreviousGeneration(folder / DOCUMENTS, open_read_only(folder / DOCUMENTS), read_manifest(folder))\n"
        "first = next(crawl(SourceContext(sys.argv[2], CrawlLimits(allow_private=True), earlier=earlier)))\n"
        "print(type(first).__name__, [name for name in ('faiss', 'tantivy') if name in sys.modules])"
    )
    command = [sys.executable, "-c", script, str(work.index), site.url]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "Known []"


def test_each_body_is_hashed_once(work: Work, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo(site, "none")
    hashed: list[bytes] = []

    def sha256(data: bytes) -> object:
        hashed.append(data)
        return hashlib.sha256(data)

    monkeypatch.setattr(records, "hashlib", SimpleNamespace(sha256=sha256))
    for _ in range(2):
        hashed.clear()
        assert work.build(site.url).fetched == len(hashed) == 5
