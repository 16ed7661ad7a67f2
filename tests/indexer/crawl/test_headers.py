"""What headers say about a page: the address it belongs at, its language."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from indexer.config import CrawlLimits
from indexer.crawl.answers import canonical_of, language_in, retry_after, robots_directives
from indexer.crawl.crawler import crawl
from indexer.records import Page
from indexer.source_context import SourceContext
from tests.indexer.conftest import parsed
from tests.indexer.crawl.test_crawler import canonical, link, run
from tests.indexer.server import Reply, Site

HERE = "http://t.test/b?x=1"
PDF = {"Content-Type": "application/pdf"}


@pytest.mark.parametrize(
    ("links", "found"),
    [
        (['</a>; rel="canonical"'], "http://t.test/a"),
        (["<a>;rel=canonical"], "http://t.test/a"),
        (['<http://t.test/a#part>; title="x, y; z"; REL="alternate Canonical"'], "http://t.test/a"),
        (["</style.css>; rel=preload; as=style, </a>; rel=canonical, </c>; rel=canonical"], "http://t.test/a"),
        (["</n>; rel=next", "</a>; rel=canonical"], "http://t.test/a"),
        (['</a>; title="rel=canonical"'], None),
        (["</a>; rel=canonicals", "/a; rel=canonical", "", "<"], None),
        (["<http://other.test/a>; rel=canonical"], None),
        (["<https://t.test/a>; rel=canonical"], None),
        (["<file:///etc/passwd>; rel=canonical"], None),
        ([f"<{HERE}>; rel=canonical"], None),
        (['<' * 100_000, "; a=" * 100_000], None),
    ],
)  # fmt: skip
def test_canonical_links(links: list[str], found: str | None) -> None:
    assert canonical_of(HERE, links) == found


@pytest.mark.parametrize(
    ("value", "language"), [("de-AT", "de"), (" EN ", "en"), ("de, en", None), ("", None), ("mul", None), ("?", None)]
)
def test_languages(value: str, language: str | None) -> None:
    assert language_in(httpx.Headers({"Content-Language": value})) == language


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("9" * 5000, 9_999_999_999),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("Mon, 99 Foo 2026", None),
        ("Fri, 31 Dec 2027 23:59:59", None),
        (f"Fri, 31 Dec {'9' * 20} 23:59:59 GMT", None),
    ],
)
def test_when_to_ask_again(value: str, seconds: float | None) -> None:
    assert retry_after(httpx.Headers({"Retry-After": value})) == seconds


def test_when_to_ask_again_may_be_missing_or_a_date() -> None:
    assert retry_after(httpx.Headers()) is None
    moment = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert retry_after(httpx.Headers({"Retry-After": moment})) == pytest.approx(3600, abs=30)


def test_a_document_of_any_kind_gives_way_to_the_one_its_header_names(site: Site, limits: CrawlLimits) -> None:
    site.pages(index=link("/print.pdf", "/own.html"), guide="The guide.", own="own")
    site.routes["/print.pdf"] = Reply(b"%PDF", 200, PDF | {"Link": f'<{site.url}/guide>; rel="canonical"'})
    html = canonical("/own", "says so itself").encode()
    site.routes["/own.html"] = Reply(html, 200, {"Content-Type": "text/html", "Link": "</guide>; rel=canonical"})
    assert run(site, limits)[0] == ["/", "/guide", "/own"]


def test_the_language_of_the_header_counts_where_the_page_does_not_say(site: Site, limits: CrawlLimits) -> None:
    headers = {"Content-Type": "text/html", "Content-Language": "fr"}
    site.routes["/"] = Reply(f"<p>chat {link('/other')}".encode(), 200, headers)
    site.routes["/other"] = Reply(b"<html lang=de><p>Katze", 200, headers)
    pages = [item for item in crawl(SourceContext(site.url, limits)) if isinstance(item, Page)]
    assert [parsed(page).language for page in pages] == ["fr", "de"]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["noindex, NoFollow"], {"noindex", "nofollow"}),
        (["Pilotlight/0.1: noindex", "googlebot: nofollow"], {"noindex"}),
        (["pilotlight crawler: noindex, nofollow"], {"noindex", "nofollow"}),
        (["pilot: noindex", "pilotlight-images: noindex"], set()),
        (["googlebot: noindex, nofollow, pilotlight: nofollow"], {"nofollow"}),
        (["max-snippet: 5, nofollow"], {"max-snippet: 5", "nofollow"}),
        (
            ["unavailable_after: Wed, 25 Jun 2099 15:00:00 GMT, nofollow"],
            {"unavailable_after: wed", "25 jun 2099 15:00:00 gmt", "nofollow"},
        ),
    ],
)
def test_directives_for_this_crawler(values: list[str], found: set[str]) -> None:
    assert robots_directives(httpx.Headers([("X-Robots-Tag", value) for value in values])) == found
