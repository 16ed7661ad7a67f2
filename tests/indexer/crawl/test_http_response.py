"""What the headers and first bytes of an answer say."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from indexer.config import CrawlLimits
from indexer.crawl.http_response import (
    content_language,
    detect_media_type,
    file_names,
    looks_like_sitemap,
    parse_content_type,
    retry_after,
    x_robots_directives,
)
from indexer.network.credentials import Credential, Session
from indexer.network.http import decode_body
from indexer.network.urls import normalise
from indexer.read.formats import OPENAPI
from tests.indexer.crawl.test_crawler import link, run
from tests.indexer.files import docx, epub, pdf, pptx, xlsx, zipped
from tests.indexer.server import Reply, Site
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
        (PLAIN, "guide.md", b"# Guide", "text/markdown"),
        (HTML, "llms-full.txt", b"# Guide", "text/markdown"),
        ("text/x-markdown", "guide", b"# Guide", "text/markdown"),
        ("", "", b"\xff\xfeR\x00", PLAIN),
        ("*/*", "table.csv", b"a,b\n1,2\n", "text/csv"),
        ("application/vnd.ms-excel", "a.csv", b"a,b\n1,2", "text/csv"),
        ("application/vnd.ms-excel", "a.xls", b"<html><table>", HTML),
        ("text/xml", "a", b'<html xmlns="http://www.w3.org/1999/xhtml">', HTML),
        ("application/json", "spec", b'{"info": {}, "openapi": "3.1.0"}', OPENAPI),
        ("text/x-yaml; x", "spec.yaml", b"# Zoo\nopenapi: 3.0.0\n", OPENAPI),
        (PLAIN, "spec.yml", b"swagger: '2.0'\n", OPENAPI),
        (ANYTHING, "spec.json", b'\xef\xbb\xbf{"swagger": "2.0"}', OPENAPI),
    ],
)  # fmt: skip
def test_types_are_known_by_name_and_first_bytes(declared: str, name: str, body: bytes, expected: str) -> None:
    assert detect_media_type(declared, (name,) if name else (), body) == expected


@pytest.mark.parametrize(
    ("declared", "name", "body"),
    [
        (PLAIN, "page.txt", PAGE),  # shows markup
        (HTML, "a.md", PAGE),
        (HTML, "a", b"no tags at all"),
        ("application/xhtml+xml", "a", PAGE),
        ("image/svg+xml", "a.svg", b"<svg/>"),
        (ANYTHING, "a.iso", bytes(600)),
        (ANYTHING, "main.css", b"p { color: red }"),
        (ANYTHING, "a.zip", zipped({"readme.txt": "x"})),
        (ANYTHING, "a.doc", OLE),
        (ANYTHING, "sitemap.xml", b"<urlset/>"),
        ("application/xml", "sitemap.xml", b"<urlset/>"),
        ("application/json", "data.json", b'{"a": {"openapi": 3}}'),
        (HTML, "spec.yaml", b"<!DOCTYPE html><html><pre>\nopenapi: 3.0.0\n"),
        (PLAIN, "a.txt", b"openapi: 3.0.0\n"),
    ],
)  # fmt: skip
def test_other_types_stay_as_they_are_declared(declared: str, name: str, body: bytes) -> None:
    assert detect_media_type(declared, (name,), body) == declared


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Text/HTML; charset="UTF-8"', ("text/html", "UTF-8")),
        ("text/html, text/html; charset=utf-8", ("text/html", "utf-8")), ("html", ("", None)), ("", ("", None)),
    ],
)  # fmt: skip
def test_headers(header: str, expected: tuple[str, str | None]) -> None:
    assert parse_content_type(header) == expected


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
    assert file_names(url, disposition) == expected


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
    ("value", "seconds"),
    [
        (" 120 ", 120), ("9" * 5000, 9_999_999_999), ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("", None), ("-1", None), ("Fri, 31 Dec 2027 23:59:59", None),
        (f"Fri, 31 Dec {'9' * 20} 23:59:59 GMT", None),
    ],
)  # fmt: skip
def test_when_to_ask_again(value: str, seconds: float | None) -> None:
    assert retry_after(httpx.Headers({"Retry-After": value})) == seconds


def test_when_to_ask_again_is_a_time() -> None:
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert retry_after(httpx.Headers({"Retry-After": in_an_hour})) == pytest.approx(3600, abs=300)


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
    assert x_robots_directives(httpx.Headers([("X-Robots-Tag", value) for value in values])) == found


HEADER_READERS: dict[str, Callable[[str], object]] = {
    "Content-Type": parse_content_type,
    "Content-Disposition": lambda text: file_names("http://a.test/", text),
    "Retry-After": lambda text: retry_after(httpx.Headers({"Retry-After": text})),
    "Content-Language": lambda text: content_language(httpx.Headers({"Content-Language": text})),
    "X-Robots-Tag": lambda text: x_robots_directives(httpx.Headers({"X-Robots-Tag": text})),
    "Location": lambda text: normalise("http://a.test/", text),
    "Content-Encoding": lambda text: list(decode_body([b"x"], text)),
    "Set-Cookie": lambda text: Session(Credential("http://a.test")).store_cookies("http://a.test/", text.split(",")),
    "body": lambda text: (looks_like_sitemap(text.encode()), detect_media_type("", (text,), text.encode())),
}


@pytest.mark.parametrize("name", HEADER_READERS)
def test_headers_of_any_length_are_read_in_linear_time(name: str) -> None:
    for piece in """a| |;|; a=|; a="|"|";|\\|,|a=b,|<|<!--|/|%41|a:|text/|1""".split("|"):
        check_linear(HEADER_READERS[name], repeated(piece), 200_000)
