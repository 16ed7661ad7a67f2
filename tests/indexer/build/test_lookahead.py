import threading
from contextlib import closing

import pytest

from indexer.build.lookahead import Lookahead
from indexer.errors import ParseError
from indexer.read.parsing import parse
from indexer.read.sandbox import Sandbox
from indexer.records import Document, Page, Skip
from tests.indexer.conftest import make_page


def test_items_keep_their_order_and_errors_their_page() -> None:
    pages = [make_page(f"<p>page {number}", url=f"http://t.test/{number}") for number in range(40)]
    bad = make_page(b"x", "image/png", "http://t.test/bad")
    items = [*pages[:20], Skip("http://t.test/no", "no"), bad, *pages[20:]]
    with closing(Lookahead(parse, lambda page: page is not pages[0])) as lookahead:
        for item, (given, document) in zip(items, lookahead.over(items), strict=True):
            assert given is item
            if item is bad:
                with pytest.raises(ParseError, match="image/png is not read"):
                    document.result()  # type: ignore[union-attr]
            elif document is not None:
                assert document.result().document.sections[0].text == f"page {item.url.rpartition('/')[2]}"
            else:
                assert item in (pages[0], items[20])


def test_only_so_much_is_read_ahead() -> None:
    taken: list[int] = []

    def pages() -> object:
        for number in range(100):
            taken.append(number)
            yield Skip(f"http://t.test/{number}", "no")

    with closing(Lookahead(parse, lambda page: True)) as lookahead:
        next(lookahead.over(pages()))  # type: ignore[arg-type]
    assert len(taken) == 17


def test_closing_waits_for_no_document() -> None:
    begun = threading.Event()

    def stuck(page: Page, sandbox: Sandbox) -> Document:
        process = sandbox.start()
        begun.set()
        process.wait()  # a reader that never answers: only its end is waited for
        raise ParseError("interrupted")

    lookahead = Lookahead(stuck, lambda page: True)
    given = lookahead.over([make_page("<p>x")])
    _, document = next(given)
    assert begun.wait(30)
    lookahead.close()
    assert document is not None
    with pytest.raises(ParseError, match="interrupted"):
        document.result()
