import gzip

import pytest

from indexer.config import CrawlLimits
from indexer.errors import FetchError, SourceError
from indexer.sitemap import Listing, read_listing
from tests.indexer.conftest import make_page
from tests.indexer.server import Reply, Site
from tests.indexer.test_crawler import link, run

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
XML = {"Content-Type": "application/xml"}


def urlset(*urls: str) -> bytes:
    entries = "".join(f"<url><loc> {url} </loc><lastmod>2026-01-01</lastmod></url>" for url in urls)
    return f'<?xml version="1.0"?><!-- x --><urlset {NAMESPACE}>{entries}</urlset>'.encode()


def index(*urls: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex {NAMESPACE}>{entries}</sitemapindex>".encode()


def read(body: bytes, content_type: str = "application/xml", url: str = "http://t.test/list") -> Listing:
    return read_listing(make_page(body, content_type, url), 100_000)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (urlset("http://t.test/a", "/b", "/a", "mailto:x"), "text/xml"),
        (gzip.compress(urlset("/a", "/b")), "application/gzip"),
        (b"<rss><channel><link>/</link><item><link>/a</link></item><item><link>/b</link></item></channel></rss>",
         "application/rss+xml"),
        (b'<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link href="/a"/><link rel="edit" '
         b'href="/e"/></entry><entry><link rel="alternate" href="/b"/></entry></feed>', "application/atom+xml"),
    ],
)  # fmt: skip
def test_kinds_of_lists(body: bytes, content_type: str) -> None:
    assert read(body, content_type).pages == ("http://t.test/a", "http://t.test/b")


def test_llms_txt_is_markdown_whatever_it_is_called() -> None:
    body = b"# T\n\n> x\n\n- [A](/a): first\n- [B](b.md#x)\n"
    assert read(body, "text/plain", "http://t.test/llms.txt").pages == ("http://t.test/a", "http://t.test/b.md")


BILLION = b"<!DOCTYPE x [<!ENTITY a 'ha'>" + b"".join(
    f"<!ENTITY {chr(98 + i)} '{f'&{chr(97 + i)};' * 10}'>".encode() for i in range(9)
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BILLION + b"]><urlset><url><loc>/&j;</loc></url></urlset>", "document type"),
        (BILLION + b"]><urlset a='&j;'/>", "document type|cannot be read"),
        (
            b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><urlset><url><loc>/&e;</loc></url></urlset>',
            "document",
        ),
        (b'<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><urlset/>', "document type"),
        (b"<html><body>no</body></html>", "neither a page nor a sitemap"),
        (b"<urlset><url>", "cannot be read"),
        (b"", "cannot be read"),
        (b"\x1f\x8bnot gzip", "damaged gzip body"),
        (gzip.compress(bytes(30_000_000)), "larger than 100,000 bytes"),
        (b"<urlset>" + b"<url>" * 5000, "cannot be read"),
    ],
)
def test_hostile_lists(body: bytes, reason: str) -> None:
    with pytest.raises(FetchError, match=reason):
        read(body)


def test_a_sitemap_gives_its_pages_and_no_links_are_followed(site: Site, limits: CrawlLimits) -> None:
    site.routes["/sitemap.xml"] = Reply(urlset(f"{site.url}/b", f"{site.url}/a", "http://other.test/"), 200, XML)
    site.pages(a=link("/c"), b="b", c="c")
    pages, skips, failures = run(site, limits, "/sitemap.xml")
    assert (pages, failures) == (["/b", "/a"], {})
    assert skips == {"http://other.test/": "on another site"}
    assert "/c" not in site.hits


def test_an_index_that_names_itself_and_others_ends(site: Site, limits: CrawlLimits) -> None:
    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /private\n"
    names = ("/sitemap.xml", "/one.xml", "/two.xml.gz", "/gone.xml", "/private.xml", "http://other.test/s.xml")
    site.routes["/sitemap.xml"] = Reply(index(*names), 200, XML)
    site.routes["/one.xml"] = Reply(urlset("/a", "/private/x"), 200, XML)
    site.routes["/two.xml.gz"] = Reply(gzip.compress(urlset("/b", "/a")), 200, {"Content-Type": "application/x-gzip"})
    site.pages(a="a", b="b")
    pages, skips, failures = run(site, limits, "/sitemap.xml")
    assert pages == ["/a", "/b"]
    assert failures == {"/gone.xml": "HTTP 404"}
    assert set(skips) == {"/private/x", "/private.xml", "http://other.test/s.xml"}
    assert site.hits.count("/sitemap.xml") == 1


def test_a_list_out_of_reach_stops_the_crawl_so_that_nothing_is_taken_for_gone(site: Site, limits: CrawlLimits) -> None:
    site.routes["/sitemap.xml"] = Reply(index("/one.xml"), 200, XML)
    site.routes["/one.xml"] = Reply(b"", 503)
    with pytest.raises(SourceError, match=r"cannot read .*/sitemap\.xml: HTTP 503"):
        run(site, limits, "/sitemap.xml")


def test_a_list_without_pages_of_the_site_says_so(site: Site, limits: CrawlLimits) -> None:
    site.routes["/sitemap.xml"] = Reply(urlset("http://other.test/"), 200, XML)
    with pytest.raises(SourceError, match="lists no page of"):
        run(site, limits, "/sitemap.xml")
