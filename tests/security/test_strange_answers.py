"""Servers that answer with whatever they like: headers in no encoding, dates of no calendar, markup of no language.

Each costs its own page at most, in the first build as in those that ask again.
"""

import random
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.crawl import fetch
from indexer.errors import NothingToIndex, SourceError
from tests.indexer.pipeline.incremental import Work, link
from tests.indexer.server import Reply, Site, page

PAGES = 40
NAMES = (
    b"Content-Type ETag Last-Modified Location Link X-Robots-Tag Content-Language X\xff Retry-After Content-Encoding "
    b"Transfer-Encoding Connection Set-Cookie Content-Length"
).split()
VALUES = [b"", b" ", b"x" * 5_000, b"<" * 3_000]
VALUES += re.split(
    rb"[|\n]",
    b"""\xff\xfe|\xc3\xa9|\xd9\xa3|a\tb|0|-1|1e9|NaN|"e"|W/"e"|"\x80"|Tue, 14 Nov 2023 22:13:20 GMT|Tue, 99 Nov 2023
Tue, 14 Nov 2023 22:13:20 GMT \xc3\xa9|Mon, 01 Jan 0001 00:00:00 -9999|Tue, 14 Nov 99999 22:13:20 GMT|gzip|br|zstd
deflate, gzip|identity|chunked|keep-alive|close|text/html; charset=utf-16|text/html; charset=idna|text/markdown|//
text/html; charset*=utf-8''x|text/plain;charset=\xff|application/pdf|application/json|application/zip|message/rfc822
text/csv|/p1|/p2?x=\xff|?|http://[::1|http://\xff/|http:///x|<http://[>; rel=canonical|</p3>; rel="canonical"|noindex
pilotlight: nofollow|de-\xff|en, de""",
)
STATUS = [b"200 OK"] * 14
STATUS += b"204|206|304|301|302|307|404|410|500|100 Go on|999 ?|0|abc".split(b"|")
MARKUP = """<title>T</title>
<h1>A</h1>
<p>Words that go on for long enough to count.
<a href=/p{}>x</a>
<a href='p{}?q={}'>
<link rel=canonical href='/p{}'>
<meta name=robots content=noindex>
<meta charset=utf-7>
<meta name=date content='2024-99-99'>
<meta name='pilotlight:a' content='{}'>
<base href='http://[::1'>
<base href='/x\udc80'>
<html lang='\x00'>
<a href='http://127.0.0.1:99999/'>
<a href='/\u202e'>
<a id='\ud800'><h2 id='\udfff'>B
&#xD800;&#x110000;
%PDF-1.4
PK\x03\x04
{{"text": "x"}}
a,b
\x00\x01""".split("\n")


def strange(chance: random.Random) -> Callable[[BaseHTTPRequestHandler], None]:
    """A route that gives the same answer each time, but may say that it has not changed."""
    body = "".join(chance.choice(MARKUP).format(*[chance.randrange(PAGES)] * 2) for _ in range(chance.randrange(9)))
    data = body.encode("utf-8", "surrogatepass") if chance.random() < 0.9 else chance.randbytes(200)
    headers = [(b"Content-Type", b"text/html")] if chance.random() < 0.8 else []
    headers += [(chance.choice(NAMES), chance.choice(VALUES)) for _ in range(chance.randrange(8))]
    headers += [(b"Content-Length", b"%d" % len(data))] if chance.random() < 0.8 else []
    status, cut, knows = chance.choice(STATUS), chance.random() < 0.03, chance.random() < 0.4

    def route(handler: BaseHTTPRequestHandler) -> None:
        asked = "If-None-Match" in handler.headers or "If-Modified-Since" in handler.headers
        line = b"304 Not Modified" if knows and asked else status
        head = b"".join(b"%b: %b\r\n" % header for header in headers)
        answer = b"HTTP/1.1 %b\r\n%b\r\n%b" % (line, head, b"" if line.startswith(b"304") else data)
        handler.close_connection = True
        handler.wfile.write(answer[: len(answer) // 2] if cut else answer)

    return route


@pytest.mark.parametrize("seed", range(12))
def test_a_strange_answer_costs_its_own_page(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fetch, "_BACKOFF", 0.01)
    chance = random.Random(seed)
    work = Work(tmp_path / "index")
    paths = [f"/p{number}" for number in range(PAGES)]
    site.routes["/"] = page("<p>Here everything begins." + link(*paths))
    site.routes |= {path: strange(chance) for path in paths}
    for _ in range(3):
        work.build(site.url)
        assert "/" in work.paths(site)
        site.routes |= {path: strange(chance) for path in chance.sample(paths, PAGES // 4)}


RAW = "\x9b31m\xa0\xad"  # of these, what a header may hold


def answering(status: str, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """A route that writes its answer as it is."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        answer = f"HTTP/1.1 {status}\r\n{head}Content-Length: 1\r\nConnection: close\r\n\r\nx"
        handler.wfile.write(answer.encode("latin-1"))
        handler.close_connection = True

    return answer


ANSWERS = {
    "media type": answering("200 OK", Content_Type=f"text/{RAW}"),
    "charset": answering("200 OK", Content_Type=f"text/html; charset={RAW}"),
    "encoding": answering("200 OK", Content_Type="text/html", Content_Encoding=RAW),
    "reason": answering(f"500 {RAW}"),
    "redirect": answering("302 Found", Location=f"http://other{RAW}.test/{RAW}"),
    "redirect elsewhere": answering("302 Found", Location=f"{RAW}://x"),
    "pause": answering("503 Wait", Retry_After=RAW),
    "robots": answering("200 OK", Content_Type="text/html", X_Robots_Tag=RAW),
}  # fmt: skip


def harmless(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("start", ["<p>Cats sleep.</p><a href=/x>x</a>", None], ids=["page", "first page"])
@pytest.mark.parametrize("what", ANSWERS)
def test_headers_reach_no_terminal(site: Site, work: Work, what: str, start: str | None) -> None:
    site.routes |= {"/robots.txt": Reply(b""), "/": start or ANSWERS[what], "/x": ANSWERS[what]}
    try:  # a page is read by its content where its headers name no media type or packing
        said = work.build(site.url).table()
    except (SourceError, NothingToIndex) as error:
        said = str(error)
    assert harmless(said + work.said), said


def test_names_of_files_reach_no_terminal(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("Cats sleep.")
    (docs / "b.\x1b[2J").write_text("x")
    (docs / "c\x1b[2J.pdf").write_text("x")
    report = Work(tmp_path / "index").build(docs)
    assert harmless(report.table()), report.table()
