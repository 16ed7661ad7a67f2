import threading
from contextlib import closing

import pytest

from indexer.config import ChunkConfig
from indexer.errors import ParseError
from indexer.pipeline import workers
from indexer.pipeline.workers import read_ahead
from indexer.read.ocr.pages import Ocr, Spare
from indexer.read.reader_process import ReaderProcess
from indexer.records import Document, Page, Parsed, Skip
from tests.indexer.conftest import make_page


def test_items_keep_their_order_and_errors_their_page() -> None:
    pages = [make_page(f"<p>page {number}", url=f"http://t.test/{number}") for number in range(40)]
    bad = make_page(b"x", "image/gif", "http://t.test/bad")
    items = [*pages[:20], Skip("http://t.test/no", "no"), bad, *pages[20:]]
    with closing(read_ahead(iter(items), lambda page: page is not pages[0], ChunkConfig())) as ahead:
        for item, (given, result) in zip(items, ahead, strict=True):
            assert given is item
            if item is bad:
                assert isinstance(result, ParseError)
                assert "image/gif is not read" in str(result)
            elif isinstance(result, Parsed):
                assert result.document.sections[0].text == f"page {item.url.rpartition('/')[2]}"
            else:
                assert item in (pages[0], items[20])


def test_closing_waits_for_no_document(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def stuck(page: Page, reader_process: ReaderProcess, ocr: Ocr, spare: Spare) -> Document:
        process = reader_process.start()
        begun.set()
        process.wait()  # a reader that never answers: only its end is waited for
        raise ParseError("interrupted")

    monkeypatch.setattr(workers, "parse", stuck)
    skip = Skip("http://t.test/no", "no")
    items = iter([skip, make_page("<p>x"), *[skip] * workers.AHEAD])
    ahead = read_ahead(items, lambda page: True, ChunkConfig())
    assert next(ahead)[0] is skip
    assert begun.wait(30)
    ahead.close()
