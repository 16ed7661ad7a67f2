"""One site: which pages are found, in which order, and what is left out."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.config import CrawlLimits, CrawlScope
from indexer.crawl.crawler import crawl
from indexer.errors import ConfigError, SourceError
from indexer.records import Failure, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.reading import _Unique
from tests.indexer.server import Reply, Site, page, redirect, send, trusted_tls


def run(site: Site, limits: CrawlLimits, start: str = "/") -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Paths of the pages in order, and reasons by path of what was skipped and what failed."""
    pages, skips, failures = [], {}, {}
    for item in map(_Unique(()).item, crawl(SourceContext(site.url + start, limits))):
        path = item.url.removeprefix(site.url)
        if isinstance(item, Page):
            if item.noindex:
                skips[path] = "noindex"
            else:
                pages.append(path)
        elif isinstance(item, Skip):
            skips[path] = item.reason
        else:
            assert isinstance(item, Failure)
            failures[path] = item.reason
    return pages, skips, failures


def link(*targets: str) -> str:
    return " ".join(f'<a href="{target}">{target}</a>' for target in targets)


def test_every_linked_page_of_the_site_is_found(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("a", "/b#part", "b"), a=link("b", "/", "deep/c.html"), b="leaf")
    site.routes["/deep/c.html"] = page(link("../d", "?q=1"))
    site.routes["/d"] = page("d")
    site.routes["/deep/c.html?q=1"] = page("with a query")
    pages, skips, failures = run(site, limits)
    assert pages == ["/", "/a", "/b", "/deep/c.html", "/d", "/deep/c.html?q=1"]
    assert (skips, failures) == ({}, {})
    assert sorted(site.hits) == sorted([*pages, "/robots.txt"]), "each page is asked for once"


def test_order_does_not_depend_on_which_page_is_slow(site: Site, limits: CrawlLimits) -> None:
    """The first link answers only after the last has been asked for."""
    last_asked = threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        assert last_asked.wait(300)
        send(handler, Reply(page(link("/slow-child")).encode()))

    def last(handler: BaseHTTPRequestHandler) -> None:
        last_asked.set()
        send(handler, Reply(page(link("/last-child")).encode()))

    site.pages(index=link("/slow", "/x", "/last"), x="x")
    site.routes |= {"/slow": slow, "/last": last, "/slow-child": page("1"), "/last-child": page("2")}
    assert run(site, limits)[0] == ["/", "/slow", "/x", "/last", "/slow-child", "/last-child"]


def test_other_hosts_ports_and_schemes_are_left_alone(site: Site, sentinel: Site, limits: CrawlLimits) -> None:
    site.pages(
        index=link(sentinel.url, f"http://localhost:{site.port}/", f"https://127.0.0.2:{site.port}/", "mailto:a@b")
    )
    pages, skips, failures = run(site, limits)
    assert (pages, skips, failures) == (["/"], {}, {})
    assert sentinel.hits == []


def test_a_site_that_answers_anything_with_one_page_ends(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("x/"))
    same = page("same " + link("x/", "y/"))
    for path in ("/x/", "/x/x/", "/x/y/", "/x/x/x/"):
        site.routes[path] = same
    pages, skips, _ = run(site, limits)
    assert pages == ["/", "/x/"]
    assert set(skips.values()) == {"same content as another page"}


def test_limits_of_depth_and_bytes(site: Site) -> None:
    site.pages(index=link("/a"), a=link("/b") + "a" * 400, b=link("/c"), c="c")
    pages, skips, _ = run(site, CrawlLimits(allow_private=True, max_depth=2))
    assert (pages, skips) == (["/", "/a", "/b"], {"/c": "more than 2 links from the start"})
    pages, skips, _ = run(site, CrawlLimits(allow_private=True, max_total_bytes=300, concurrency=1))
    assert (pages, skips) == (["/", "/a"], {"/b": "over the limit of 300 bytes"})


def test_failures_do_not_stop_the_crawl(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("/gone", "/png", "/huge", "/ok"), ok="fine")
    site.routes["/png"] = Reply(b"PNG", 200, {"Content-Type": "image/png"})
    site.routes["/huge"] = "x" * 60_000
    pages, skips, failures = run(site, CrawlLimits(allow_private=True, max_bytes=50_000))
    assert pages == ["/", "/ok"]
    assert skips == {"/png": "content type image/png is not read"}
    assert failures == {"/gone": "HTTP 404", "/huge": "larger than 50,000 bytes"}


def test_robots_keeps_us_out_of_pages_and_redirects(site: Site, limits: CrawlLimits) -> None:
    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /private\n"
    site.pages(index=link("/private/a", "/door", "/ok"), ok="fine")
    site.routes["/door"] = redirect("/private/b")
    pages, skips, _ = run(site, limits)
    assert pages == ["/", "/ok"]
    assert skips == {"/private/a": "robots.txt disallows it", "/door": "redirect to a page that robots.txt disallows"}
    assert not any(hit.startswith("/private") for hit in site.hits)


def test_redirects_give_the_final_address_once(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("/old", "/new", "/older"), new="target")
    site.routes["/old"] = redirect("/new", 301)
    site.routes["/older"] = redirect("/old", 308)
    pages, skips, _ = run(site, limits)
    assert pages == ["/", "/new"]
    assert set(skips.values()) == {"leads to a page already read"}


def test_markdown_sites_are_followed(site: Site, limits: CrawlLimits) -> None:
    text = {"Content-Type": "text/markdown"}
    site.routes["/"] = Reply(b"# Start\n\n[two](two.md), <a href='three.md'>three</a>\n", 200, text)
    site.routes["/two.md"] = Reply(b"# Two\n\n![no](pic.png)\n", 200, {"Content-Type": "text/plain"})
    site.routes["/three.md"] = Reply(b"# Three\n\n[two](two.md#two)", 200, text)
    assert run(site, limits)[0] == ["/", "/two.md", "/three.md"]
    assert "/pic.png" not in site.hits


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        (Reply(b"x", 404), "HTTP 404"),
        (Reply(b"PNG", 200, {"Content-Type": "image/png"}), "image/png is not read"),
        (redirect("/"), "more than 5 redirects"),
    ],
)
def test_a_start_page_that_cannot_be_read(site: Site, limits: CrawlLimits, route: Reply, reason: str) -> None:
    site.routes["/"] = route
    with pytest.raises(SourceError, match=reason) as caught:
        run(site, limits)
    assert str(caught.value).startswith(f"cannot read {site.url}/: ")


def test_stopping_early_ends_the_threads(site: Site, limits: CrawlLimits) -> None:
    """The caller loses interest while a fetcher waits for a page that never comes."""
    asked = threading.Event()

    def never(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        site.stopping.wait(20)

    site.pages(index=link("/never", "/a"), a="a")
    site.routes["/never"] = never
    site.pages(index=link("/a", "/never"))
    items = crawl(SourceContext(site.url, limits))
    assert next(items).url == f"{site.url}/"
    assert next(items).url == f"{site.url}/a"
    assert asked.wait(300)
    items.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fetch")]


def canonical(target: str, body: str) -> str:
    return f'<html><head><link rel="canonical" href="{target}"></head><body>{body}</body></html>'


def test_a_page_gives_way_to_the_canonical_one_and_its_links_are_followed(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("/list?sort=up", "/list?page=2", "/list"), hidden="h", deep="d")
    site.routes["/list"] = canonical("/list", "the list")
    site.routes["/list?sort=up"] = canonical("/list", f"upwards {link('/hidden')}")
    site.routes["/list?page=2"] = canonical("/list", f"second {link('/deep')}")
    pages, skips, failures = run(site, limits)
    assert (pages, failures) == (["/", "/list", "/hidden", "/deep"], {})
    assert set(skips.values()) == {"leads to a page already read"}


def test_a_canonical_address_that_leads_nowhere_is_not_believed(site: Site, limits: CrawlLimits) -> None:
    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /no\n"
    targets = {"/a": "/gone", "/b": "/c", "/c": "/b", "/d": "http://other.test/", "/e": "/no", "/f": "mailto:x"}
    site.pages(index=link(*targets))
    for path, target in targets.items():
        site.routes[path] = canonical(target, f"page {path}")
    pages, skips, failures = run(site, limits)
    assert (pages, skips, failures) == (["/", *targets], {}, {})


def test_directives_in_headers_and_links(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("/mine", "/other", "/dead-end", "/hidden") + '<a rel="external nofollow" href="/not">x</a>')
    site.routes["/hidden"] = f'<meta name="robots" content="NOINDEX"><p>{link("/behind")}'
    site.routes["/behind"] = f'<meta name=robots content="nofollow, x"><p>{link("/never")}'
    for path, value in (
        ("/mine", "pilotlight: noindex"),
        ("/other", "googlebot: noindex, nofollow"),
        ("/dead-end", "max-snippet: 5, nofollow"),
    ):
        body = f"{path} {link(path + '/child')}".encode()
        site.routes[path] = Reply(body, 200, {"Content-Type": "text/html", "X-Robots-Tag": value})
        site.routes[path + "/child"] = f"child of {path}"
    pages, skips, _ = run(site, limits)
    assert pages == ["/", "/other", "/dead-end", "/mine/child", "/other/child", "/behind"]
    assert skips == {"/mine": "noindex", "/hidden": "noindex"}
    assert not {"/not", "/never"} & set(site.hits)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/docs/", "/docs/a", True), ("*.html$", "/a/b.html", True), ("*.html$", "/a/b.html?x", False),
        ("/a/*/c$", "/a/b/c/d", False), ("/a/*/c$", "/a/c/c/c", True), ("/a*a$", "/a", False),
        ("*?print=", "/a?print=1", True), ("/" + "*a" * 300 + "b", "/" + "a" * 1900, False),
    ],
)  # fmt: skip
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    url = f"http://h.test{path}"
    assert (CrawlScope(include=(pattern,)).refusal(url) is None) is matches
    assert CrawlScope(exclude=(pattern,)).refusal(url) == (f"excluded by {pattern}" if matches else None)
    with pytest.raises(ConfigError, match=r"begin with / or .*, not 'docs'"):
        CrawlScope(include=("docs",))


def test_a_crawl_asks_for_nothing_that_is_left_out(site: Site) -> None:
    site.pages(index=link("/docs/a", "/blog", "/docs/old", "/docs/away"))
    site.routes |= {"/docs/a": "<p>a", "/docs/old": "<p>x", "/blog": "<p>b", "/docs/away": redirect("/blog")}
    limits = CrawlLimits(allow_private=True, scope=CrawlScope(("/docs/", "/no"), ("*/old",)))
    pages, skips, failures = run(site, limits)
    assert (pages, failures) == (["/docs/a"], {})
    assert skips == {
        "/": "excluded by --include",
        "/blog": "excluded by --include",
        "/docs/old": "excluded by */old",
        "/docs/away": "redirect to a page that is excluded by --include",
    }
    assert "/blog" not in site.hits


@pytest.fixture
def other() -> Iterator[Site]:
    made = Site("127.0.0.3")
    made.pages(index=link("/a"), a="a")
    yield made
    made.close()


@pytest.mark.parametrize("has_rules", [False, True])
def test_a_start_page_that_redirects_to_another_host(site: Site, other: Site, has_rules: bool) -> None:
    site.routes["/docs"] = redirect(f"{other.url}/", 301)
    other.pages(index=link(f"{site.url}/a"))  # with the host of before
    if has_rules:
        site.routes["/robots.txt"] = redirect(f"{other.url}/robots.txt", 301)
        other.routes["/robots.txt"] = "User-agent: *\nDisallow: /a\n"
    items = {item.url: item for item in crawl(SourceContext(f"{site.url}/docs", CrawlLimits(allow_private=True)))}
    start = items[f"{other.url}/"]
    assert isinstance(start, Page)
    assert start.note.startswith(f"{site.url} redirects to {other.url}, which was read")
    assert type(items[f"{other.url}/a"]) is (Skip if has_rules else Page)
    assert len(items) == 2


def test_a_start_page_that_redirects_to_a_login_of_another_host(site: Site, other: Site) -> None:
    site.routes["/"] = redirect(f"{other.url}/login")
    other.pages(login="<form><input type=password name=p></form>")
    with pytest.raises(SourceError, match="which asks for a password"):
        list(crawl(SourceContext(site.url, CrawlLimits(allow_private=True))))


def test_hosts_that_redirect_to_each_other(site: Site, other: Site) -> None:
    site.routes["/"], other.routes["/"] = redirect(f"{other.url}/"), redirect(f"{site.url}/")
    with pytest.raises(SourceError, match="cannot read"):
        list(crawl(SourceContext(site.url, CrawlLimits(allow_private=True))))


def test_links_without_tls_of_a_site_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tls=trusted_tls(tmp_path, monkeypatch, "localhost"))
    plain = site.url.replace("https", "http")
    site.pages(index=link(f"{plain}/a", "/b", "/c"), a=canonical(f"{plain}/a", "a"), c="c")
    site.routes["/b"] = redirect(f"{plain}/d")
    site.routes["/c"] = f'<meta http-equiv="refresh" content="0; url={plain}/e">'
    site.routes |= {"/d": "d", "/e": "e"}
    assert run(site, CrawlLimits(allow_private=True)) == (["/", "/a", "/d", "/e"], {}, {})
    site.close()
