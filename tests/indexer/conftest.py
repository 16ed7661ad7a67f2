from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.read.document_reader import read_document
from indexer.read.reader_process import borrowed
from indexer.records import Document, Page
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Site


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.crawl.fetch._BACKOFF", 0.01)


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site("127.0.0.2")  # beside `sentinel`, which some tests must not reach
    yield server
    server.close()


@pytest.fixture
def sentinel() -> Iterator[Site]:
    """A server on loopback; the test fails if anything at all was asked of it."""
    server = Site()
    server.routes["/"] = "<p>secret</p>"
    yield server
    server.close()
    assert server.hits == []


@pytest.fixture
def limits() -> CrawlLimits:
    return CrawlLimits(allow_private=True, timeout=300.0)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path / "index")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A tiny folder of documentation."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "cats.html").write_text(
        "<title>Cats</title><h1>Cats</h1><p>"
        + "Cats sleep most of the day. " * 8
        + "</p><h2 id=food>Food</h2><p>"
        + "They eat fish. " * 8
    )
    (folder / "dogs.md").write_text(
        "# Dogs\n\n" + "Dogs bark at strangers. " * 10 + "\n\n## Walks\n\n" + "Twice a day in the park. " * 4
    )
    (folder / "notes.txt").write_text("Birds\n\nBirds sing at dawn.\n")
    return folder


def make_page(body: str | bytes, content_type: str = "text/html", url: str = "http://t.test/p", **kw: object) -> Page:
    raw = body.encode() if isinstance(body, str) else body
    fields: dict[str, object] = {
        "charset": None,
        "etag": None,
        "last_modified": None,
        "fetched_at": "2026-01-01T00:00:00",
    }
    return Page(url=url, source="s", body=raw, content_type=content_type, **{**fields, **kw})  # type: ignore[arg-type]


def parsed(page: Page) -> Document:
    """What `parse` makes of a page, in a process of its own where that is needed."""
    with borrowed() as process:
        return read_document(page, process)
