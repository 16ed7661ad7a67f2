"""Which pages are rendered, what their scripts may load, and what becomes of them; the browser is a fake."""

import importlib.util
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from indexer.config import CrawlLimits
from indexer.crawl import browser as browser_module
from indexer.crawl.browser import Browser, RenderedDocument, RenderJob, Resource
from indexer.crawl.crawler import crawl
from indexer.crawl.fetch import Fetcher
from indexer.crawl.http_response import PageUnavailable
from indexer.crawl.renderer import RenderBudget, Renderer
from indexer.crawl.site_files import Robots
from indexer.errors import RendererMissing
from indexer.network.credentials import Credential, InEnvironment, Session
from indexer.read.reader_process import borrowed
from indexer.records import Item, Page
from indexer.source_context import SourceContext
from tests.indexer.pipeline.incremental import Versioned, Work
from tests.indexer.server import Reply, Site, redirect

TEXT = "Words of a page that a script has rendered. " * 12
SHELL = "<html><head><title>Docs</title><script src=/app.js></script></head><body><div id=root></div>"
WRITTEN = f"<script src=/menu.js></script><h1>Written</h1><p>{'Words of a page that needs no script. ' * 12}</p>"
AUTO = CrawlLimits(allow_private=True, timeout=300.0, render="auto")


@dataclass
class FakeBrowser:
    """Stands for the browser: loads what it is told to, and fills the empty element with an answer."""

    data: str = ""  # path that every page's script asks for
    text: str = TEXT
    moves: tuple[str, ...] = ()
    is_late: bool = False
    lost: bool = False
    rendered: list[str] = field(default_factory=list)

    def render(self, job: RenderJob, stop: threading.Event) -> RenderedDocument:
        self.rendered.append(job.url)
        if self.lost:
            raise PageUnavailable("the browser ended unexpectedly")
        text = self.text
        if self.data:
            given = job.load(job.url.rpartition("/")[0] + self.data, False, {})
            text = given.body.decode() if given else ""
        html = job.body.decode().replace("<div id=root></div>", f"<div id=root>{text}</div>")
        return RenderedDocument(html.encode(), self.moves, self.is_late)

    def close(self) -> None: ...


@pytest.fixture
def fake_browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBrowser]:
    fake = FakeBrowser()
    monkeypatch.setattr("indexer.sources.reading.Browser", lambda: fake)
    monkeypatch.setattr("indexer.crawl.renderer.check_installed", lambda: None)
    return fake


def items(site: Site, fake_browser: FakeBrowser, limits: CrawlLimits = AUTO) -> list[Item]:
    return list(crawl(SourceContext(site.url, limits), browser=fake_browser))  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "expected"), [("off", []), ("auto", ["/shell"]), ("on", ["/", "/shell", "/written"])])
def test_which_pages_are_rendered(site: Site, fake_browser: FakeBrowser, mode: str, expected: list[str]) -> None:
    site.routes["/"] = WRITTEN + "<a href=/shell>a</a><a href=/written>b</a><a href=/plain.txt>c</a><a href=/no>d</a>"
    site.routes |= {"/shell": SHELL, "/written": WRITTEN, "/no": SHELL + "<meta name=robots content=noindex>"}
    site.routes["/plain.txt"] = Reply(b"<script src=a></script>", 200, {"Content-Type": "text/plain"})
    items(site, fake_browser, replace(AUTO, render=mode))
    assert sorted(url.removeprefix(site.url) for url in fake_browser.rendered) == expected


def test_what_a_script_draws_counts_as_the_page(site: Site, fake_browser: FakeBrowser) -> None:
    fake_browser.text = TEXT + "<a href=/made>made</a>"
    fake_browser.moves = (f"{site.url}/led", "http://other.test/", "file:///etc/passwd")
    site.routes["/"] = Versioned(SHELL, etag='"1"', modified="Wed, 01 Jan 2020 00:00:00 GMT")
    site.routes["/made"] = site.routes["/led"] = WRITTEN
    found = items(site, fake_browser)
    assert [item.url.removeprefix(site.url) for item in found] == ["/", "/made", "/led"]
    page = found[0]
    assert isinstance(page, Page)
    assert (page.content_type, page.charset, page.etag, page.last_modified) == ("text/html", "utf-8", None, None)
    assert TEXT.encode() in page.body


@pytest.mark.parametrize("trouble", ["data", "late", "lost"])
def test_a_page_that_was_not_rendered_this_time_is_kept(
    site: Site, fake_browser: FakeBrowser, work: Work, trouble: str
) -> None:
    site.routes["/"] = f"{WRITTEN}<a href=/shell>x</a>"
    site.routes["/shell"], site.routes["/data"] = SHELL, TEXT
    fake_browser.data = "/data"
    assert work.build(site.url, limits=AUTO).documents == 2
    if trouble == "data":
        site.routes["/data"] = Reply(b"", 503)
    else:
        fake_browser.data, fake_browser.text, fake_browser.lost, fake_browser.is_late = (
            "",
            "Loading",
            trouble == "lost",
            True,
        )
    report = work.build(site.url, limits=AUTO)
    assert report.documents == 2
    [kept] = report.kept
    assert {"data": "/data: HTTP 503", "late": "took longer than 15 s", "lost": "unexpectedly"}[trouble] in kept.reason


def test_rendered_pages_are_rendered_again(site: Site, fake_browser: FakeBrowser, work: Work) -> None:
    """The document of a page says nothing of what its scripts load."""
    shell, written = Versioned(SHELL, etag='"1"'), Versioned(f"{WRITTEN}<a href=/shell>x</a>", etag='"2"')
    site.routes |= {"/": written, "/shell": shell}
    assert work.build(site.url, limits=AUTO).documents == 2
    same = work.build(site.url, limits=AUTO)
    assert (same.published, same.unchanged, work.embedded) == (False, 2, 0)
    assert (written.sent, shell.sent, len(fake_browser.rendered)) == (1, 2, 2)
    fake_browser.text = TEXT.replace("rendered", "sketched")
    changed = work.build(site.url, limits=AUTO)
    assert changed.changed.examples == [f"{site.url}/shell"]
    assert changed.unchanged == 1


def test_another_mode_reads_every_page_again(site: Site, fake_browser: FakeBrowser, work: Work) -> None:
    site.routes["/"] = Versioned(f"{WRITTEN}<a href=/shell>x</a>", etag='"1"')
    site.routes["/shell"] = Versioned(SHELL, etag='"2"')
    off = replace(AUTO, render="off")
    assert work.build(site.url, limits=off).documents == 1
    assert work.build(site.url, limits=AUTO).documents == 2
    assert not work.build(site.url, limits=AUTO).published
    assert work.build(site.url, limits=off).documents == 1
    assert not work.build(site.url, limits=off).published


def test_what_is_missing_says_so_before_anything_is_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.routes["/"] = WRITTEN
    monkeypatch.setattr(browser_module, "find_spec", lambda name: None)
    with pytest.raises(RendererMissing, match=r"pip install 'pilotlight\[render\]'"):
        list(crawl(SourceContext(site.url, AUTO)))
    monkeypatch.setattr(browser_module, "find_spec", importlib.util.find_spec)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RendererMissing, match="apt-get install chromium"):
        list(crawl(SourceContext(site.url, AUTO)))
    assert site.hits == []


def test_a_browser_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho 'FATAL: No usable sandbox!' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    browser = Browser()
    order = RenderJob("https://docs.test/", "text/html", b"", 5.0, 0.0, 1_000, lambda *ask: None)
    with pytest.raises(
        RendererMissing, match=r"^Chromium does not start \(.*No usable sandbox!\); repair it, or"
    ) as told:
        browser.render(order, threading.Event())
    assert "\n" not in str(told.value)
    browser.close()


NEAR = ("127.0.0.2/32", "127.0.0.3/32")
JSON = {"Content-Type": "application/json; charset=utf-8"}
Make = Callable[..., Renderer]


@pytest.fixture
def other() -> Iterator[Site]:
    server = Site("127.0.0.3")
    yield server
    server.close()


@pytest.fixture
def make(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr("indexer.crawl.renderer.check_installed", lambda: None)
    with ExitStack() as opened:

        def of(rules: str = "", sessions: Any = None, **limits: object):  # type: ignore[no-untyped-def]
            given = {"allow_private": NEAR, "timeout": 5.0, "render": "on"}
            allowed = CrawlLimits(**{**given, **limits})  # type: ignore[arg-type]
            renderer = Renderer(SourceContext(site.url, allowed), object())  # type: ignore[arg-type]
            fetcher = opened.enter_context(closing(Fetcher(allowed, sessions=sessions)))
            renderer.enter_site(site.url, Robots(rules, allowed.user_agent), fetcher, borrowed)
            opened.callback(renderer.close)
            opened.callback(fetcher.abort)
            return renderer

        yield of


def load(
    resources: Renderer, url: str, *, script: bool = False, budget: RenderBudget | None = None, **headers: str
) -> Resource | None:
    return resources.load(budget or RenderBudget(10**6), url, script, headers)


def test_an_answer_has_what_the_page_may_see_of_it(site: Site, make: Make) -> None:
    seen: list[dict[str, str]] = []
    site.came = lambda handler: seen.append(dict(handler.headers))  # type: ignore[method-assign]
    open_to_all = {"Access-Control-Allow-Origin": "*", "Set-Cookie": "sid=secret", "X-Own": "1"}
    site.routes["/data"] = Reply(b"{}", 200, JSON | open_to_all)
    given = load(make(), f"{site.url}/data", accept="application/json", origin="http://a.test", cookie="sid=of-page")
    assert given == Resource(200, "application/json; charset=utf-8", b"{}", {"access-control-allow-origin": "*"})
    assert seen[0]["Accept"] == "application/json"
    assert seen[0]["Origin"] == "http://a.test"
    assert "Cookie" not in seen[0]
    missing = load(make(), f"{site.url}/missing")
    assert missing is not None
    assert missing.status == 404


def test_robots_of_each_origin_are_asked(site: Site, other: Site, make: Make) -> None:
    resources = make("User-agent: *\nDisallow: /private")
    other.routes["/robots.txt"] = "User-agent: *\nDisallow: /api"
    other.routes["/api"] = other.routes["/lib.js"] = site.routes["/private"] = "x"
    assert load(resources, f"{site.url}/private") is None
    assert load(resources, f"{other.url}/api") is None
    assert load(resources, f"{other.url}/lib.js") is not None
    assert (site.hits, other.hits) == ([], ["/robots.txt", "/lib.js"])
    assert {skip.reason for skip in resources.refused_requests()} == {"requested by a script: robots.txt disallows it"}


def test_private_addresses_of_others_need_to_be_named(site: Site, other: Site, make: Make) -> None:
    """Leave for all private addresses was given to reach the site, not for what its pages name."""
    site.routes["/data"] = other.routes["/data"] = "x"
    resources = make(allow_private=True)
    assert load(resources, f"{site.url}/data") is not None
    site.routes["/hop"] = redirect(f"{other.url}/data")
    for url in (f"{other.url}/data", "http://[::ffff:127.0.0.3]:1/data", "file:///etc/passwd", f"{site.url}/hop"):
        assert load(resources, url) is None
    assert other.hits == []
    assert load(make(), f"{other.url}/data") is not None


def test_credentials_go_to_the_site_alone(site: Site, other: Site, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "a-very-secret-token")
    sessions = {one.url: Session(Credential(one.url, bearer=InEnvironment("A_TOKEN"))) for one in (site, other)}
    sent: dict[str, list[str | None]] = {"site": [], "other": []}
    site.came = lambda handler: sent["site"].append(handler.headers.get("Authorization"))  # type: ignore[method-assign]
    other.came = lambda handler: sent["other"].append(handler.headers.get("Authorization"))  # type: ignore[method-assign]
    site.routes["/data"] = other.routes["/data"] = Reply(b"told: a-very-secret-token", 200, JSON)
    resources = make(sessions=sessions)
    given = load(resources, f"{site.url}/data", authorization="Bearer of-page")
    assert load(resources, f"{other.url}/data") is not None
    assert load(resources, f"{site.url}/logout") is None
    assert sent == {"site": ["Bearer a-very-secret-token"], "other": [None, None]}
    assert given is not None
    assert given.body == b"told: ", "what a site repeats of a secret does not reach the browser"


def test_limits(site: Site, make: Make) -> None:
    site.routes["/app.js"] = site.routes["/data"] = Reply(b"x" * 1_000)
    resources, budget = make(max_bytes=2_000), RenderBudget(1_500)
    for _ in range(4):
        load(resources, f"{site.url}/app.js", script=True, budget=budget)
    assert site.hits == ["/app.js"], "a script is loaded once"
    assert load(resources, f"{site.url}/data", budget=budget) is None, "but counts for each page"
    site.routes["/busy"], budget = Reply(b"", 503), RenderBudget(1_000)
    assert load(make(), f"{site.url}/busy", budget=budget) is None
    assert budget.unavailable.endswith("/busy: HTTP 503")
    site.routes["/large"] = Reply(b"x" * 3_000)
    assert load(resources, f"{site.url}/large") is None
    assert sorted(skip.reason.partition(": ")[2] for skip in resources.refused_requests()) == [
        "larger than 2,000 bytes", "over the limit of 20,000,000 bytes that a page may load",
    ]  # fmt: skip
