"""What a site or a document says is shown on a terminal, which obeys control characters."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.errors import NothingToIndex, SourceError
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site

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


@pytest.mark.parametrize("what", ANSWERS)
def test_headers_reach_no_terminal(what: str, tmp_path: Path) -> None:
    site = Site()
    try:
        site.routes |= {"/robots.txt": Reply(b""), "/": "<p>Cats sleep.</p><a href=/x>x</a>", "/x": ANSWERS[what]}
        work = Work(tmp_path / "index")
        report = work.build(site.url)
        assert harmless(report.table()), report.table()
        assert harmless(work.said)
    finally:
        site.close()


@pytest.mark.parametrize("what", ["media type", "encoding", "reason", "redirect", "redirect elsewhere"])
def test_nor_do_those_of_the_first_page(what: str, tmp_path: Path) -> None:
    site = Site()
    try:
        site.routes |= {"/robots.txt": Reply(b""), "/": ANSWERS[what]}
        try:  # a page is read by its content where its headers name no media type or packing
            said = Work(tmp_path / "index").build(site.url).table()
        except (SourceError, NothingToIndex) as error:
            said = str(error)
        assert harmless(said), said
    finally:
        site.close()


def test_names_of_files_reach_no_terminal(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("Cats sleep.")
    (docs / "b.\x1b[2J").write_text("x")
    (docs / "c\x1b[2J.pdf").write_text("x")
    report = Work(tmp_path / "index").build(docs)
    assert harmless(report.table()), report.table()
