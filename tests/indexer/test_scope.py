import pytest

from indexer.config import CrawlLimits, Scope, patterns
from indexer.errors import ConfigError
from tests.indexer.crawl.test_crawler import link, run
from tests.indexer.server import Site, redirect


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
    assert (Scope(include=(pattern,)).refusal(url) is None) is matches
    assert Scope(exclude=(pattern,)).refusal(url) == (f"excluded by {pattern}" if matches else None)


def test_exclude_goes_before_include() -> None:
    scope = Scope(patterns("/a, /b,"), patterns("/a/x"))
    refused = [scope.refusal(f"http://h.test{path}") for path in ("/a", "/b", "/a/x", "/c")]
    assert refused == [None, None, "excluded by /a/x", "excluded by --include"]


def test_a_pattern_that_is_no_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="not 'docs': begin with / or"):
        Scope(include=("docs",))


def test_a_crawl_asks_for_nothing_that_is_left_out(site: Site) -> None:
    site.pages(index=link("/docs/a", "/blog", "/docs/old", "/docs/away"))
    site.routes |= {"/docs/a": "<p>a", "/docs/old": "<p>x", "/blog": "<p>b", "/docs/away": redirect("/blog")}
    limits = CrawlLimits(allow_private=True, scope=Scope(("/docs/",), ("*/old",)))
    pages, skips, failures = run(site, limits)
    assert (pages, failures) == (["/docs/a"], {})
    assert skips == {
        "/": "excluded by --include",
        "/blog": "excluded by --include",
        "/docs/old": "excluded by */old",
        "/docs/away": "redirect to a page that is excluded by --include",
    }
    assert "/blog" not in site.hits
