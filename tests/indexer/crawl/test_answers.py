"""What the headers and first bytes of an answer say, and answers that are kept for the build after a killed one."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest

from indexer.config import CrawlLimits
from indexer.crawl import answers as module
from indexer.crawl.answers import (
    Answer,
    Journal,
    actual_type,
    base_of,
    is_list,
    language_in,
    media_type,
    names_of,
    retry_after,
    robots_directives,
)
from indexer.credentials import Credential, Session
from indexer.encodings import decoded
from indexer.generation.generation import Generation
from indexer.generation.layout import BUILDING, JOURNAL
from indexer.urls import normalise
from tests.indexer.crawl.test_crawler import link, run
from tests.indexer.files import docx, epub, pdf, pptx, xlsx, zipped
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, page
from tests.linear import check_linear, repeated

OFFICE = "application/vnd.openxmlformats-officedocument"
WORD, SHEET, SLIDES = (
    f"{OFFICE}.{kind}" for kind in ("wordprocessingml.document", "spreadsheetml.sheet", "presentationml.presentation")
)
PDF, EPUB, HTML, PLAIN = "application/pdf", "application/epub+zip", "text/html", "text/plain"
ANYTHING = "application/octet-stream"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
DOCX, XLSX, PPTX, BOOK = docx("<w:p/>"), xlsx(A=[["1"]]), pptx("<p/>"), epub(one="<p>x</p>")
PAGE = b"<!DOCTYPE html><html><p>x"


@pytest.mark.parametrize(
    ("declared", "name", "body", "expected"),
    [
        (ANYTHING, "a.pdf", pdf("x"), PDF),
        (ANYTHING, "get.php", pdf("x"), PDF),
        (PLAIN, "a.pdf", pdf("x"), PDF),
        (HTML, "a.pdf", b"\r\n" + pdf("x"), PDF),
        ("application/msword", "a.docx", DOCX, WORD),
        ("application/zip", "a.xlsx", XLSX, SHEET),
        ("application/vnd.ms-powerpoint", "a.pptx", PPTX, SLIDES),
        (ANYTHING, "a.epub", BOOK, EPUB),
        (ANYTHING, "a.xls", OLE, "application/vnd.ms-excel"),
        (ANYTHING, "a.html", PAGE, HTML),
        ("", "", b"\xef\xbb\xbf\n<!-- x -->\n<html><p>x", HTML),
        ("application/xml", "a", b'<?xml version="1.0"?><!DOCTYPE html PUBLIC "x" "y"><html>', HTML),
        (PLAIN, "a.html", PAGE, HTML),
        ("application/json", "x", PAGE, HTML),
        (ANYTHING, "guide.md", b"# Guide\n\nText", "text/markdown"),
        ("", "", b"\xff\xfeR\x00", PLAIN),
        ("*/*", "table.csv", b"a,b\n1,2\n", "text/csv"),
        ("application/vnd.ms-excel", "a.csv", b"a,b\n1,2", "text/csv"),
        ("application/vnd.ms-excel", "a.xls", b"<html><table>", HTML),
        ("text/xml", "a", b'<html xmlns="http://www.w3.org/1999/xhtml">', HTML),
    ],
)  # fmt: skip
def test_types_are_known_by_name_and_first_bytes(declared: str, name: str, body: bytes, expected: str) -> None:
    assert actual_type(declared, (name,) if name else (), body) == expected


@pytest.mark.parametrize(
    ("declared", "name", "body"),
    [
        (PLAIN, "page.txt", PAGE),  # shows markup
        (PLAIN, "a.md", b"# A"),
        (HTML, "a", b"no tags at all"),
        ("application/xhtml+xml", "a", PAGE),
        ("image/svg+xml", "a.svg", b"<svg/>"),
        (ANYTHING, "a.iso", bytes(600)),
        (ANYTHING, "main.css", b"p { color: red }"),
        (ANYTHING, "a.zip", zipped({"readme.txt": "x"})),
        (ANYTHING, "a.doc", OLE),
        (ANYTHING, "sitemap.xml", b"<urlset/>"),
        ("application/xml", "sitemap.xml", b"<urlset/>"),
    ],
)  # fmt: skip
def test_other_types_stay_as_they_are_declared(declared: str, name: str, body: bytes) -> None:
    assert actual_type(declared, (name,), body) == declared


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Text/HTML; charset="UTF-8"', ("text/html", "UTF-8")),
        ("text/html, text/html; charset=utf-8", ("text/html", "utf-8")), ("html", ("", None)), ("", ("", None)),
    ],
)  # fmt: skip
def test_headers(header: str, expected: tuple[str, str | None]) -> None:
    assert media_type(header) == expected


@pytest.mark.parametrize(
    ("url", "disposition", "expected"),
    [
        ("http://t.test/a/b%20c.PDF", "", ("b c.pdf",)),
        ("http://t.test/get?file=a%2Fb.pdf&x=1", "", ("get",)),
        ("http://t.test/get", 'attachment; filename="plan.docx"', ("plan.docx", "get")),
        ("http://t.test/get", "attachment; filename*=UTF-8''%e2%82%ac.pdf", ("€.pdf", "get")),
        ("http://t.test/get", r'inline; FILENAME="C:\x\plan.pdf"', ("plan.pdf", "get")),
        ("http://t.test/get", "attachment; filename*=nonsense''x.pdf", ("x.pdf", "get")),
        ("http://t.test/get", "attachment; filename*=a; filename*0=b; filename*x=c", ("get",)),
        ("http://t.test/", "attachment", ()),
    ],
)
def test_names(url: str, disposition: str, expected: tuple[str, ...]) -> None:
    assert names_of(url, disposition) == expected


def test_files_of_any_type_are_read_and_others_are_not_received(site: Site) -> None:
    vague = {"Content-Type": ANYTHING}
    site.pages(index=link("/get?id=1", "/plan", "/guide.md", "/disk", "/large"))
    site.routes["/get?id=1"] = Reply(pdf("A report of the year"), 200, vague)
    site.routes["/plan"] = Reply(DOCX, 200, vague | {"Content-Disposition": 'attachment; filename="plan.docx"'})
    site.routes["/guide.md"] = Reply(link("/further").encode(), 200, vague)
    site.routes["/disk"] = Reply(bytes(60_000), 200, vague)
    site.routes["/large"] = Reply(b"%PDF-1.4" + bytes(60_000), 200, vague)
    site.pages(further="more")
    pages, skips, failures = run(site, CrawlLimits(allow_private=True, max_bytes=50_000))
    assert pages == ["/", "/get?id=1", "/plan", "/guide.md", "/further"]
    assert skips == {"/disk": f"content type {ANYTHING} is not read"}
    assert failures == {"/large": "larger than 50,000 bytes"}


@pytest.mark.parametrize(
    ("value", "language"), [("de-AT", "de"), (" EN ", "en"), ("de, en", None), ("", None), ("mul", None), ("?", None)]
)
def test_languages(value: str, language: str | None) -> None:
    assert language_in(httpx.Headers({"Content-Language": value})) == language


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (" 120 ", 120), ("9" * 5000, 9_999_999_999), ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        pytest.param(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True), 3600, id="in an hour"),
        ("", None), ("-1", None), ("Fri, 31 Dec 2027 23:59:59", None),
        (f"Fri, 31 Dec {'9' * 20} 23:59:59 GMT", None),
    ],
)  # fmt: skip
def test_when_to_ask_again(value: str, seconds: float | None) -> None:
    assert retry_after(httpx.Headers({"Retry-After": value})) == pytest.approx(seconds, abs=300)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["noindex, NoFollow"], {"noindex", "nofollow"}),
        (["Pilotlight/0.1: noindex", "googlebot: nofollow"], {"noindex"}),
        (["pilotlight crawler: noindex, nofollow"], {"noindex", "nofollow"}),
        (["pilot: noindex", "pilotlight-images: noindex"], set()),
        (["googlebot: noindex, nofollow, pilotlight: nofollow"], {"nofollow"}),
        (["max-snippet: 5, nofollow"], {"max-snippet: 5", "nofollow"}),
        (["unavailable_after: Wed, 25 Jun 2099 15:00:00 GMT, nofollow"],
         {"unavailable_after: wed", "25 jun 2099 15:00:00 gmt", "nofollow"}),
    ],
)  # fmt: skip
def test_directives_for_this_crawler(values: list[str], found: set[str]) -> None:
    assert robots_directives(httpx.Headers([("X-Robots-Tag", value) for value in values])) == found


HEADER_READERS: dict[str, Callable[[str], object]] = {
    "Content-Type": media_type,
    "Content-Disposition": lambda text: names_of("http://a.test/", text),
    "Retry-After": lambda text: retry_after(httpx.Headers({"Retry-After": text})),
    "Content-Language": lambda text: language_in(httpx.Headers({"Content-Language": text})),
    "X-Robots-Tag": lambda text: robots_directives(httpx.Headers({"X-Robots-Tag": text})),
    "Location": lambda text: normalise("http://a.test/", text),
    "Content-Encoding": lambda text: list(decoded([b"x"], text)),
    "Set-Cookie": lambda text: Session(Credential("http://a.test")).take_cookies("http://a.test/", text.split(",")),
    "body": lambda text: (is_list(text.encode()), actual_type("", (text,), text.encode())),
}


@pytest.mark.parametrize("name", HEADER_READERS)
def test_headers_of_any_length_are_read_in_linear_time(name: str) -> None:
    for piece in (
        "a",
        " ",
        ";",
        "; a=",
        '; a="',
        '"',
        '";',
        "\\",
        ",",
        "a=b,",
        "<",
        "<!--",
        "/",
        "%41",
        "a:",
        "text/",
        "1",
    ):
        check_linear(HEADER_READERS[name], repeated(piece), 200_000)


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
