import gzip

import pytest

from indexer.config import CrawlLimits, CrawlScope
from indexer.crawl.site_files import read_sitemap
from indexer.errors import SourceError
from tests.indexer.conftest import make_page
from tests.indexer.crawl.test_crawler import link, run
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, redirect

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
XML = {"Content-Type": "application/xml"}


def urlset(*urls: str) -> bytes:
    entries = "".join(f"<url><loc> {url} </loc><lastmod>2026-01-01</lastmod></url>" for url in urls)
    return f'<?xml version="1.0"?><!-- x --><urlset {NAMESPACE}>{entries}</urlset>'.encode()


def index(*urls: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex {NAMESPACE}>{entries}</sitemapindex>".encode()


def read(body: bytes, content_type: str = "application/xml", url: str = "http://t.test/list") -> tuple[str, ...]:
    return read_sitemap(make_page(body, content_type, url))[0]


RSS = "<rss version='2.0'><channel><link>/</link>%s</channel></rss>"
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/'/>%s</feed>"
RDF = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>%s</rdf:RDF>"
LISTS = {
    "namespace": urlset("http://t.test/a", "/b", "/a", "mailto:x"),
    "prefix": b"<s:urlset xmlns:s='x'><s:url><s:loc>/a</s:loc></s:url><s:url><s:loc>b</s:loc></s:url></s:urlset>",
    "no namespace": b"<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url></urlset>",
    "CDATA": b"<urlset><url><loc><![CDATA[/a]]></loc></url><url><loc>\n\t<![CDATA[ /b ]]></loc></url></urlset>",
    "uppercase": b"<URLSET><URL><LOC>HTTP://T.TEST/a</LOC></URL><URL><LOC>/b</LOC></URL></URLSET>",
    "other languages": b"<urlset xmlns:x='x'><url><loc>/a</loc><x:link rel='alternate' href='/b'/></url></urlset>",
    "gzip": gzip.compress(urlset("/a", "/b")),
    "gzip twice": gzip.compress(gzip.compress(urlset("/a", "/b"))),
    "BOM and blanks": b"\xef\xbb\xbf\r\n" + urlset("/a", "/b"),
    "UTF-16": urlset("/a", "/b").decode().replace("?>", " encoding='UTF-16'?>", 1).encode("utf-16"),
    "UTF-16 without a BOM": urlset("/a", "/b").decode().encode("utf-16-be"),
    "bytes that are no characters": urlset("/a", "/b").replace(b"2026", b"\x0b\xff&nbsp;"),
    "wrong declaration": urlset("/a", "/b").replace(b"?>", b" encoding='UTF-16'?>", 1),
    "text after its end": urlset("/a", "/b") + b"\nServed from the cache &",
    "RSS": (RSS % "<item><link>/a</link></item><item><link>/b</link></item>").encode(),
    "RSS 0.91": b'<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/x.dtd">'
    b"<rss><channel><item><link>/a</link></item><item><link>/b</link></item></channel></rss>",
    "Atom": (
        ATOM
        % "<entry><link href='/a'/><link rel='edit' href='/e'/></entry><entry><link rel='alternate' href='/b'/></entry>"
    ).encode(),
    "Atom with a base": (
        ATOM % "<entry xml:base='http://t.test/'><link href='a'/></entry><entry xml:base='/'><link href='b'/></entry>"
    ).encode(),
    "RSS by guid": (
        RSS % "<item><guid>http://t.test/a</guid></item><item><guid>x</guid><link>/b</link></item>"
    ).encode(),
    "Atom by id": (ATOM % "<entry><id>http://t.test/a</id></entry><entry><link href='/b'/></entry>").encode(),
    "RDF": (RDF % "<item rdf:about='x'><link>/a</link></item><item rdf:about='y'><link>/b</link></item>").encode(),
    "text": b"http://t.test/a\r\nHTTP://T.test/b\r\n",
    "text with a BOM": b"\xef\xbb\xbfhttp://t.test/a\n\n# more\n  /b  \n",
    "text in gzip": gzip.compress(b"http://t.test/a\nhttp://t.test/b"),
}


@pytest.mark.parametrize("kind", LISTS)
def test_kinds_of_lists(kind: str) -> None:
    assert read(LISTS[kind], "text/html") == ("http://t.test/a", "http://t.test/b")


@pytest.mark.parametrize("kind", ["prefix", "BOM and blanks", "RSS", "Atom", "text", "gzip"])
@pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream", "application/xml"])
def test_a_start_page_that_is_a_list_whatever_its_media_type(
    site: Site, limits: CrawlLimits, kind: str, content_type: str
) -> None:
    body = LISTS[kind].replace(b"http://t.test", site.url.encode()).replace(b"HTTP://T.test", site.url.upper().encode())
    site.routes["/list"] = Reply(body, 200, {"Content-Type": content_type})
    site.pages(a="a", b="b")
    assert run(site, limits, "/list")[0] == ["/a", "/b"]


@pytest.mark.parametrize("place", ["/sitemap.xml", "/sitemap_index.xml", "/sitemap.txt"])
def test_well_known_places_are_tried_where_the_start_page_leads_nowhere(
    site: Site, limits: CrawlLimits, place: str
) -> None:
    site.routes[place] = Reply(f"{site.url}/a".encode(), 200, {"Content-Type": "text/plain"})
    site.pages(index="start", a="a")
    assert run(site, limits) == (["/", "/a"], {}, {})
    site.pages(index=link("/b"), b="b")
    site.hits.clear()
    assert run(site, limits)[0] == ["/", "/b"]
    assert place not in site.hits


def test_lists_mix_http_and_https(site: Site, limits: CrawlLimits) -> None:
    other = site.url.replace("http:", "https:")
    rules(site, f"{other}/index.xml")
    site.routes["/index.xml"] = Reply(index(f"{other}/one.xml"), 200, XML)
    site.routes["/one.xml"] = Reply(urlset(f"{other}/a", f"{site.url}/a", f"{other.upper()}/b"), 200, XML)
    site.pages(index="start", a="a", b="b")
    assert run(site, limits) == (["/", "/a", "/b"], {}, {})


def test_llms_txt_is_markdown_whatever_it_is_called() -> None:
    body = b"# T\n\n> x\n\n- [A](/a): first\n- [B](b.md#x)\n"
    assert read(body, "text/plain", "http://t.test/llms.txt") == ("http://t.test/a", "http://t.test/b.md")


def test_a_sitemap_gives_its_pages_and_no_links_are_followed(site: Site, limits: CrawlLimits) -> None:
    site.routes["/sitemap.xml"] = Reply(urlset(f"{site.url}/b", f"{site.url}/a", "http://other.test/"), 200, XML)
    site.pages(a=link("/c"), b="b", c="c")
    pages, skips, failures = run(site, limits, "/sitemap.xml")
    assert (pages, failures) == (["/b", "/a"], {})
    assert skips == {"http://other.test/": "on another site"}
    assert "/c" not in site.hits


def test_a_list_out_of_reach_stops_the_crawl_so_that_nothing_is_taken_for_gone(site: Site, limits: CrawlLimits) -> None:
    site.routes["/sitemap.xml"] = Reply(index("/one.xml"), 200, XML)
    site.routes["/one.xml"] = Reply(b"", 503)
    with pytest.raises(SourceError, match=r"cannot read .*/sitemap\.xml: HTTP 503"):
        run(site, limits, "/sitemap.xml")
    site.routes["/sitemap.xml"] = Reply(urlset("http://other.test/"), 200, XML)
    with pytest.raises(SourceError, match="lists no pages of"):
        run(site, limits, "/sitemap.xml")


def rules(site: Site, *sitemaps: str) -> None:
    lines = "".join(f"Sitemap: {address}\n" for address in sitemaps)
    site.routes["/robots.txt"] = f"{lines}User-agent: *\nDisallow: /private\n"


def test_sitemaps_that_robots_names_are_seeds_beside_the_links(site: Site, limits: CrawlLimits) -> None:
    rules(site, f"{site.url}/index.xml", "/two.xml.gz", "/gone.xml", "http://other.test/s.xml", "file:///etc/passwd")
    site.routes["/index.xml"] = Reply(index("/index.xml", "/one.xml"), 200, XML)
    site.routes["/one.xml"] = Reply(urlset("/b", "/orphan", "/private/x", "http://other.test/x"), 200, XML)
    site.routes["/two.xml.gz"] = Reply(gzip.compress(urlset("/late")), 200, {"Content-Type": "application/x-gzip"})
    site.pages(index=link("/a", "/b"), a="a", b="b", orphan=link("/deep"), late="late", deep="deep")
    pages, skips, failures = run(site, limits)
    assert sorted(pages) == sorted(["/", "/a", "/b", "/orphan", "/late", "/deep"])
    assert site.hits.count("/index.xml") == 1
    assert failures == {"/gone.xml": "HTTP 404"}
    assert skips == {
        "/private/x": "robots.txt disallows it",
        "http://other.test/s.xml": "on another site",
        "http://other.test/x": "on another site",
    }


def test_the_scope_of_a_crawl_holds_for_sitemaps(site: Site) -> None:
    rules(site, "/sitemap.xml")
    site.routes["/sitemap.xml"] = redirect("/maps/all.xml")
    site.routes["/maps/all.xml"] = Reply(urlset("/docs/a", "/blog/b"), 200, XML)
    site.pages(index="start", docs_a="a", blog_b="b")
    pages, skips, _ = run(site, CrawlLimits(allow_private=True, scope=CrawlScope(("/docs/",))))
    assert (pages, skips["/blog/b"]) == (["/docs/a"], "excluded by --include")
    site.hits.clear()
    assert run(site, CrawlLimits(allow_private=True, max_depth=0))[0] == ["/"]
    assert "/sitemap.xml" not in site.hits, "a single page was asked for"


def test_what_a_sitemap_out_of_reach_listed_is_not_taken_for_gone(site: Site, work: Work) -> None:
    rules(site, "/sitemap.xml")
    site.routes["/sitemap.xml"] = Reply(urlset("/orphan"), 200, XML)
    site.pages(index="start", orphan="only the sitemap leads here")
    assert work.build(site.url).documents == 2
    site.routes["/sitemap.xml"] = Reply(b"", 503)
    report = work.build(site.url)
    assert (report.documents, report.gone.count) == (2, 0)
    assert [failure.reason for failure in report.failed] == ["HTTP 503"]
    del site.routes["/sitemap.xml"]
    assert work.build(site.url).gone.count == 1


def test_a_sitemap_may_be_larger_than_a_page_and_not_endless(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = CrawlLimits(allow_private=True, max_bytes=2_000)
    body = urlset("/a", "/b") + b"<!--" + b" ." * 200_000 + b"-->"
    site.routes["/sitemap.xml"] = Reply(body, 200, XML)
    site.pages(a="a", b="b" * 3_000)
    pages, _, failures = run(site, limits, "/sitemap.xml")
    assert (pages, failures) == (["/a"], {"/b": "larger than 2,000 bytes"})
    monkeypatch.setattr("indexer.crawl.fetch.MAX_SITEMAP_LENGTH", 50_000)
    with pytest.raises(SourceError, match="larger than 50,000 bytes"):
        run(site, limits, "/sitemap.xml")


def test_so_many_pages_are_listed_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.crawl.site_files.MAX_ENTRIES", 3)
    site.routes["/sitemap.xml"] = Reply(index("/0.xml", "/1.xml", "/2.xml"), 200, XML)
    for number in range(3):
        site.routes[f"/{number}.xml"] = Reply(urlset(f"/{number}a", f"/{number}b"), 200, XML)
    _, skips, failures = run(site, CrawlLimits(allow_private=True, max_pages=3), "/sitemap.xml")
    assert skips["/2.xml"] == "over the limit of 3 pages in sitemaps"
    assert "/2.xml" not in site.hits
    assert set(failures) == {"/0a", "/0b"}
