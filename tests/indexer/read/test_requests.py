"""A page goes to the reader process once, whatever a build wants of it."""

from collections import Counter
from typing import Any

import pytest

from indexer.read.reader_process import ReaderProcess
from tests.indexer.pipeline.incremental import Work, link
from tests.indexer.server import Site

PAGES = 60  # more than the sample that a template is learnt from


@pytest.mark.parametrize(
    "nav", [link("/", "/p1"), '<div class="top"><a href="/">Home</a> <a href="/p1">First</a></div>']
)
def test_a_page_is_read_once(nav: str, site: Site, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Counter[bytes]()
    ask = ReaderProcess.ask

    def counting(process: ReaderProcess, reader: str, argument: Any, body: bytes) -> Any:
        requests[body] += 1
        return ask(process, reader, argument, body)

    monkeypatch.setattr(ReaderProcess, "ask", counting)
    for n in range(PAGES):
        name = f"{chr(97 + n // 26)}{chr(97 + n % 26)}"
        text = f"<title>{name}</title><h1>{name}</h1><p>Some text that only {name} has.</p>"
        site.routes[f"/p{n}"] = f"<body>{nav}{text}</body>"
    site.routes["/"] = f"<title>Start</title><h1>Start</h1>{link(*(f'/p{n}' for n in range(PAGES)))}<p>All of them.</p>"
    assert work.build(site.url).documents == PAGES + 1
    again = sum(requests.values()) - len(requests)
    if nav.startswith("<nav"):
        assert not again
    else:  # pages that were read before their template was known, and have some of it
        assert max(requests.values()) == 2
