"""Pages that cannot be read this time, and how a page is found to be unchanged."""

import errno
import os
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from indexer.errors import SourceError
from indexer.generation.manifest import current_id
from indexer.pipeline import build as build_module
from indexer.read.document_reader import read_document
from indexer.read.reader_process import ReaderProcess
from indexer.records import Document, Page
from tests.indexer.pipeline.incremental import Versioned, Work, link, routes, zoo
from tests.indexer.server import Reply, Site, page, redirect


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\nhalf")
    handler.close_connection = True


@pytest.mark.parametrize(
    ("fault", "reason"), [(Reply(b"", 500), "HTTP 500"), (Reply(b"", 429), "HTTP 429"), (hang_up, "peer closed")]
)
def test_a_page_out_of_reach_is_kept(work: Work, site: Site, fault: Any, reason: str) -> None:
    """The list is out of reach as well; the page behind it is still found."""
    pages = zoo(site, "etag")
    first = work.build(site.url)
    site.routes |= {"/dogs": fault, "/list": fault}
    report = work.build(site.url)
    assert [failure.url for failure in report.kept] == [f"{site.url}/dogs", f"{site.url}/list"]
    assert reason in report.kept[0].reason
    assert (report.published, report.failed, report.gone.count, report.unchanged) == (False, [], 0, 3)
    assert "kept         2\n" in report.table()
    pages["cats"].body, pages["cats"].etag = page("<p>Lions roar."), '"cats2"'
    report = work.build(site.url)
    assert (report.published, report.changed.count, len(report.kept), report.embedded) == (True, 1, 2, 1)
    assert work.paths(site) == ["/", "/cats", "/deep", "/dogs"]
    site.routes |= {"/dogs": pages["dogs"], "/list": pages["list"]}
    report = work.build(site.url)
    assert (report.published, report.kept, report.documents) == (False, [], first.documents)
    assert pages["dogs"].sent == 1, "its validators are remembered as well"


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
        site, index=Versioned(page(f"<p>Start.</p>{link('old')}"), '"i"'), new=Versioned(page("<p>Moved here."), '"n"')
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


def test_only_changed_files_are_parsed(work: Work, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.build(docs)
    parsed: list[str] = []

    def note(page: Page, *given: Any) -> Document:
        parsed.append(page.url)
        return read_document(page, *given)

    monkeypatch.setattr(build_module, "read_document", note)
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


@pytest.mark.parametrize("name", ["sub", "a.txt"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_what_fails_to_be_read_is_gone_or_stops_the_build(
    work: Work, docs: Path, code: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "sub").mkdir()
    (docs / "sub" / "a.txt").write_text("Text below.")
    work.build(docs)
    real = os.open

    def fail(path: Any, *args: Any, **kw: Any) -> int:
        if path == name:
            raise OSError(code, "trouble", path)
        return real(path, *args, **kw)

    monkeypatch.setattr(os, "open", fail)
    if code == errno.EIO:  # which may pass
        with pytest.raises(SourceError, match=f"cannot read .*{name}: trouble"):
            work.build(docs)
        return
    report = work.build(docs)
    assert [Path(failure.url).name for failure in report.failed] == [name]
    assert report.gone.examples == [(docs / "sub" / "a.txt").as_uri()]


@pytest.mark.parametrize(
    "nav", [link("/", "/p1"), '<div class="top"><a href="/">Home</a> <a href="/p1">First</a></div>']
)
def test_a_page_is_read_once(nav: str, site: Site, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page goes to the reader process once, whatever a build wants of it."""
    requests = Counter[bytes]()
    pages = 60  # more than the sample that a template is learnt from
    ask = ReaderProcess.ask

    def counting(process: ReaderProcess, reader: str, argument: Any, body: bytes) -> Any:
        requests[body] += 1
        return ask(process, reader, argument, body)

    monkeypatch.setattr(ReaderProcess, "ask", counting)
    for n in range(pages):
        name = f"{chr(97 + n // 26)}{chr(97 + n % 26)}"
        text = f"<title>{name}</title><h1>{name}</h1><p>Some text that only {name} has.</p>"
        site.routes[f"/p{n}"] = f"<body>{nav}{text}</body>"
    site.routes["/"] = f"<title>Start</title><h1>Start</h1>{link(*(f'/p{n}' for n in range(pages)))}<p>All of them.</p>"
    assert work.build(site.url).documents == pages + 1
    again = sum(requests.values()) - len(requests)
    if nav.startswith("<nav"):
        assert not again
    else:  # pages that were read before their template was known, and have some of it
        assert max(requests.values()) == 2
