"""What a hostile site, name or redirect may try, against a server on loopback that must see nothing of it."""

import gzip
import ipaddress
import socket
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from indexer.config import CrawlLimits
from indexer.crawl import guard
from indexer.crawl.crawler import crawl
from indexer.errors import SourceError
from indexer.records import Failure, Page, PageRecord, Skip
from indexer.source_context import SourceContext
from tests.indexer.server import Reply, Site, page, redirect, send, trusted_tls

PUBLIC = CrawlLimits(timeout=300.0, concurrency=1)
NEAR = CrawlLimits(timeout=300.0, allow_private=("127.0.0.2/32",))
XML = {"Content-Type": "application/xml"}
Item = Page | PageRecord | Skip | Failure


def items(url: str, limits: CrawlLimits = NEAR) -> list[Item]:
    return list(crawl(SourceContext(url, limits)))


def addresses(*found: tuple[str, int]) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in found]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "0.1.2.3", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.2.3",
        "240.0.0.1", "255.255.255.255", "192.88.99.1", "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1",
        "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::",
        "2001::1", "2001:db8::1", "3fff::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1",
        "100::1", "5f00::1", "4000::1",
    ],
)  # fmt: skip
def test_refuses_everything_that_is_not_plainly_public(address: str) -> None:
    assert not guard.is_public(ipaddress.ip_address(address))
    for public in ("8.8.8.8", "151.101.1.1", "2606:4700::1111", "2a00:1450:4001::200e"):
        assert guard.is_public(ipaddress.ip_address(public))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f000001", "0177.0.0.1",
        "127.1", "0", "0.0.0.0", "[::]", "[::1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]", "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1", "[fec0::1]", "[fe80::1]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("limits", [PUBLIC, NEAR], ids=["public", "another-network-named"])
def test_no_spelling_of_an_address_that_is_not_public_is_reached(
    host: str, limits: CrawlLimits, sentinel: Site
) -> None:
    with pytest.raises(SourceError, match=r"--allow-private|Invalid IPv4 address"):
        items(f"http://{host}:{sentinel.port}/", limits)


def test_a_name_with_a_public_and_a_private_address(sentinel: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = addresses(("8.8.8.8", sentinel.port), ("127.0.0.1", sentinel.port))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: answer)
    with pytest.raises(SourceError, match=r"docs\.test has the address 127\.0\.0\.1, which is not public"):
        items(f"http://docs.test:{sentinel.port}/", PUBLIC)


def test_a_resolver_that_flips_after_its_first_answer(
    site: Site, sentinel: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = socket.getaddrinfo, list[str]()

    def flip(host: str, port: int, *args: Any, **kw: Any) -> Any:
        if host != "docs.test":
            return real(host, port, *args, **kw)
        asked.append(host)
        return addresses(("127.0.0.2", site.port) if len(asked) == 1 else ("127.0.0.1", sentinel.port))

    monkeypatch.setattr(socket, "getaddrinfo", flip)
    site.routes["/robots.txt"] = Reply(b"", 200, {"Connection": "close"})
    with pytest.raises(SourceError, match=r"127\.0\.0\.1, which is not public"):
        items(f"http://docs.test:{site.port}/")
    assert len(asked) == 2, "each connection resolves exactly once"


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.1:{port}/", "//localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "file:///etc/passwd",
     "gopher://127.0.0.1:{port}/", "http://user@127.0.0.1:{port}/", "/loop"],
)  # fmt: skip
@pytest.mark.parametrize("door", ["/robots.txt", "/", "/page", "/sitemap.xml"])
def test_redirects_lead_nowhere_else(site: Site, sentinel: Site, target: str, door: str) -> None:
    site.routes["/loop"] = redirect("/loop")
    site.pages(index='<a href="/page">x</a> start')
    index = b"<sitemapindex><sitemap><loc>/sitemap.xml</loc></sitemap></sitemapindex>"
    site.routes["/list.xml"] = Reply(index, 200, XML)
    site.routes[door] = redirect(target.format(port=sentinel.port))
    start = "/list.xml" if door == "/sitemap.xml" else "/"
    if door == "/page":
        first, *rest = items(site.url + start)
        assert isinstance(first, Page)
        assert all(isinstance(item, Skip | Failure) for item in rest)
    else:
        with pytest.raises(SourceError):
            items(site.url + start)


def test_a_public_start_page_does_not_lead_to_this_machine(
    site: Site, sentinel: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permission for all private addresses is for hosts of the user's own."""
    site.routes["/"] = redirect(f"{sentinel.url}/")
    monkeypatch.setattr(guard, "is_public", lambda address: str(address) == "127.0.0.2")
    monkeypatch.setattr("indexer.crawl.fetch.is_public", guard.is_public)
    with pytest.raises(SourceError, match=r"127\.0\.0\.1, which is not public"):
        items(site.url, CrawlLimits(allow_private=True))


@pytest.mark.parametrize(
    "body",
    [
        '<link rel="canonical" href="http://127.0.0.1:{port}/">',
        '<base href="http://127.0.0.1:{port}/"><a href="x">x</a>',
        '<a href="http://127.0.0.1:{port}/">x</a><iframe src="http://127.0.0.1:{port}/"></iframe>',
        '<meta http-equiv="refresh" content="0; url=http://127.0.0.1:{port}/">',
    ],
)
def test_what_a_page_names_is_not_asked_for(site: Site, sentinel: Site, body: str) -> None:
    site.routes["/"] = body.format(port=sentinel.port) + "start"
    assert [type(item) for item in items(site.url)] == [Page]


def test_what_headers_and_robots_name_is_not_asked_for(site: Site, sentinel: Site) -> None:
    """Canonical addresses and sitemaps elsewhere, named directly or by a redirect, an index or a page of a list."""
    near = f"{sentinel.url}/near"
    site.routes["/robots.txt"] = f"Sitemap: {near}.xml\nSitemap: /door.xml\nSitemap: /index.xml\nSitemap: file:///a\n"
    site.routes["/door.xml"] = redirect(f"{near}.xml")
    index = (
        f"<sitemapindex><sitemap><loc>{near}.xml</loc></sitemap><sitemap><loc>/list.xml</loc></sitemap></sitemapindex>"
    )
    site.routes["/index.xml"] = Reply(index.encode(), 200, XML)
    site.routes["/list.xml"] = Reply(f"<urlset><url><loc>{near}</loc></url></urlset>".encode(), 200, XML)
    link = f'<{near}>; rel="canonical", <{near}>; rel=next'
    site.routes["/"] = Reply(b"start", 200, {"Content-Type": "text/html", "Link": link, "Refresh": f"0; url={near}"})
    first, *rest = items(site.url)
    assert isinstance(first, Page)
    assert first.url == f"{site.url}/"
    assert {type(item) for item in rest} == {Skip}


def test_external_entities_of_a_sitemap_are_not_asked_for(site: Site, sentinel: Site) -> None:
    for declared in (f'SYSTEM "{sentinel.url}/x.dtd"', f'[<!ENTITY e SYSTEM "{sentinel.url}/">]'):
        body = f"<!DOCTYPE urlset {declared}><urlset><url><loc>/a&e;</loc></url></urlset>"
        site.routes["/sitemap.xml"] = Reply(body.encode(), 200, XML)
        with pytest.raises(SourceError, match=r"document type|cannot be read"):
            items(f"{site.url}/sitemap.xml")


@pytest.mark.parametrize("start", ["/sitemap.xml", "/"])
def test_laughs_and_bombs_in_a_sitemap_cost_the_sitemap(site: Site, start: str) -> None:
    laughs = "<!ENTITY a 'ha'>" + "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in pairwise("abcdefghij"))
    harms = [
        Reply(f"<!DOCTYPE x [{laughs}]><urlset><url><loc>/&j;</loc></url></urlset>".encode(), 200, XML),
        Reply(gzip.compress(b"<urlset>" + bytes(20_000_000)), 200, {"Content-Type": "application/gzip"}),
        Reply(gzip.compress(b"<urlset>" + bytes(20_000_000)), 200, XML | {"Content-Encoding": "gzip"}),
        Reply(b"<urlset>" + b"<url>" * 200_000, 200, XML),
    ]
    site.routes["/robots.txt"] = "Sitemap: /sitemap.xml\n"
    site.pages(index="start")
    for harm in harms:
        site.routes["/sitemap.xml"] = harm
        began = time.monotonic()
        if start == "/":
            assert [type(item) for item in items(site.url)] == [Page, Failure]
        else:
            with pytest.raises(SourceError, match=r"document type|200-fold|cannot read"):
                items(f"{site.url}/sitemap.xml")
        assert time.monotonic() - began < 30


def test_proxy_variables_are_not_read(site: Site, sentinel: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, sentinel.url)
        monkeypatch.setenv(name.lower(), sentinel.url)
    site.pages(index="hello")
    assert [type(item) for item in items(site.url)] == [Page]


@pytest.mark.parametrize("where", ["/page", "/robots.txt"])
@pytest.mark.parametrize("status", [200, 302])
@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_bombs_cost_one_page(
    site: Site, encoding: str, pack: Callable[[bytes], bytes], status: int, where: str
) -> None:
    headers = {"Content-Type": "text/html", "Content-Encoding": encoding, "Location": "/ok"}
    site.pages(index='<a href="/page">x</a><a href="/ok">y</a> start', ok="fine")
    site.routes[where] = Reply(pack(bytes(20_000_000)), status, headers)
    began = time.monotonic()
    if (where, status) == ("/robots.txt", 200):  # cut at 500 KiB, of rules that are none
        assert [item.url.removeprefix(site.url) for item in items(site.url)] == ["/", "/page", "/ok"]
    else:
        found = items(site.url)
        assert [type(item) for item in found if item.url.endswith("/ok")][:1] == [Page]
        assert sum(len(item.body) for item in found if isinstance(item, Page)) < 10_000
    assert time.monotonic() - began < 120, "a process that reads links begins too"


@pytest.mark.parametrize("part", [b"x" * 65_536, b"X-More: " + b"y" * 4_096 + b"\r\n"], ids=["body", "headers"])
def test_an_answer_without_end_costs_one_page(site: Site, part: bytes) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + b"\r\n" * part.startswith(b"x"))
        while not site.stopping.is_set():
            handler.wfile.write(part)

    site.pages(index='<a href="/endless">x</a><a href="/ok">y</a> start', ok="fine")
    site.routes["/endless"] = endless
    assert [type(item) for item in items(site.url)] == [Page, Failure, Page]


def test_a_site_without_end_stops_at_the_page_budget(site: Site) -> None:
    def numbered(handler: BaseHTTPRequestHandler) -> None:
        number = int(handler.path.rpartition("=")[2])
        send(handler, Reply(page(f"page {number} <a href='?page={number + 1}'>next</a>").encode()))

    for number in range(30):
        site.routes[f"/?page={number}"] = numbered
    site.pages(index='<a href="?page=1">first</a>')
    limits = CrawlLimits(max_pages=20, allow_private=("127.0.0.2/32",))
    assert [type(item) for item in items(site.url, limits)] == [Page] * 20 + [Skip]


LOOPBACK = CrawlLimits(timeout=300.0, allow_private=("127.0.0.1/32", "::1/128"))


def pages(url: str) -> list[str]:
    return [item.url for item in crawl(SourceContext(url, LOOPBACK)) if isinstance(item, Page)]


def test_a_site_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Site(tls=trusted_tls(tmp_path, monkeypatch, "localhost"))) as site:
        site.pages(index="<p>one<a href=/two>", two="<p>two<a href=/moved>", three="<p>three")
        site.routes["/moved"] = redirect("/three")
        assert pages(site.url) == [f"{site.url}{path}" for path in ("/", "/two", "/three")]


@pytest.mark.parametrize(
    ("name", "reason"), [("localhost", "certificate verify failed"), ("other.test", "Hostname mismatch")]
)
def test_a_certificate_that_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    with closing(Site(tls=trusted_tls(tmp_path, monkeypatch, name))) as site:
        if name == "localhost":
            monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(SourceError, match=reason):
            pages(site.url)
        assert site.hits == []


def test_an_address_of_ipv6() -> None:
    hosts = set()
    with closing(Site("::1")) as site:
        site.came = lambda handler: hosts.add(handler.headers["Host"])  # type: ignore[method-assign]
        site.routes |= {"/": page("<p>one<a href=two;v=1?x=a&y=b>"), "/two;v=1?x=a&y=b": page("<p>two")}
        assert pages(site.url) == [f"{site.url}/", f"{site.url}/two;v=1?x=a&y=b"]
    assert hosts == {f"[::1]:{site.port}"}
