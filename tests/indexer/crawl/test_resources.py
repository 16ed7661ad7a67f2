"""What scripts of a page may load, without a browser: the crawler's own rules hold for each request."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.browser import Resource
from indexer.crawl.fetch import Fetcher
from indexer.crawl.links import Robots
from indexer.crawl.renderer import Budget, Renderer
from indexer.credentials import Credential, InEnvironment, sessions_of
from indexer.read.reader_process import borrowed
from indexer.source_context import SourceContext
from tests.indexer.server import Reply, Site, redirect

NEAR = ("127.0.0.2/32", "127.0.0.3/32")
JSON = {"Content-Type": "application/json; charset=utf-8"}
Make = Callable[..., Renderer]


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site("127.0.0.2")
    yield server
    server.close()


@pytest.fixture
def other() -> Iterator[Site]:
    server = Site("127.0.0.3")
    yield server
    server.close()


@pytest.fixture
def make(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr("indexer.crawl.renderer.check_installed", lambda: None)
    with ExitStack() as opened:

        def of(rules: str = "", sessions: Any = None, within: tuple[str, ...] = (), **limits: object):  # type: ignore[no-untyped-def]
            given = {"allow_private": NEAR, "timeout": 5.0, "render": "on", "within": {site.url: within}}
            allowed = CrawlLimits(**{**given, **limits})  # type: ignore[arg-type]
            renderer = Renderer(SourceContext(site.url, allowed), object())  # type: ignore[arg-type]
            fetcher = opened.enter_context(closing(Fetcher(allowed, sessions=sessions)))
            renderer.enter_site(site.url, Robots(rules, allowed.user_agent), fetcher, borrowed)
            opened.callback(renderer.close)
            opened.callback(fetcher.abort)
            return renderer

        yield of


def load(
    resources: Renderer, url: str, *, script: bool = False, budget: Budget | None = None, **headers: str
) -> Resource | None:
    return resources.load(budget or Budget(10**6), url, script, headers)


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
    assert {skip.reason for skip in resources.refused()} == {"asked for by a script: robots.txt disallows it"}


def test_rules_of_few_origins_are_remembered(other: Site, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.crawl.renderer._MAX_ORIGINS", 2)
    resources, others = make(), [Site("127.0.0.3") for _ in range(4)]
    for each in others:
        each.routes["/lib.js"] = "x"
        assert load(resources, f"{each.url}/lib.js") is not None
        each.close()
    assert len(resources._robots) <= 3


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
    sessions = sessions_of([Credential(one.url, bearer=InEnvironment("A_TOKEN")) for one in (site, other)])
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


def test_a_job_loads_nothing_outside_of_its_places(site: Site, other: Site, make: Make) -> None:
    site.routes["/docs/a"] = site.routes["/b"] = other.routes["/a"] = "x"
    resources = make(within=(f"{site.url}/docs/",))
    found = [load(resources, url) for url in (f"{site.url}/docs/a", f"{site.url}/b", f"{other.url}/a")]
    assert [given is not None for given in found] == [True, False, False]
    assert (site.hits, other.hits) == (["/docs/a"], [])


def test_limits(site: Site, make: Make) -> None:
    site.routes["/app.js"] = site.routes["/data"] = Reply(b"x" * 1_000)
    resources, budget = make(max_bytes=2_000), Budget(1_500)
    for _ in range(4):
        load(resources, f"{site.url}/app.js", script=True, budget=budget)
    assert site.hits == ["/app.js"], "a script is loaded once"
    assert load(resources, f"{site.url}/data", budget=budget) is None, "but counts for each page"
    site.routes["/busy"], budget = Reply(b"", 503), Budget(1_000)
    assert load(make(), f"{site.url}/busy", budget=budget) is None
    assert budget.unavailable.endswith("/busy: HTTP 503")
    site.routes["/large"] = Reply(b"x" * 3_000)
    assert load(resources, f"{site.url}/large") is None
    assert sorted(skip.reason.partition(": ")[2] for skip in resources.refused()) == [
        "larger than 2,000 bytes", "over the limit of 20,000,000 bytes that a page may load",
    ]  # fmt: skip
