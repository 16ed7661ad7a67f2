import ipaddress
import socket
from typing import Any

import pytest

from indexer.config import CrawlLimits
from indexer.crawl import guard
from indexer.crawl.crawler import crawl
from indexer.errors import NotWanted, SourceError
from indexer.records import Page, Skip
from indexer.source_context import SourceContext
from tests.indexer.server import Site, redirect

PUBLIC = CrawlLimits(timeout=20.0, concurrency=1)


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
    assert guard.refusal(ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "151.101.1.1", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_public_addresses_pass(address: str) -> None:
    assert guard.refusal(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]",
        "[::1]", "0.0.0.0", "0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    ],
)  # fmt: skip
def test_no_spelling_of_loopback_reaches_it(host: str, sentinel: Site) -> None:
    with pytest.raises(SourceError, match=r"has the .* address .* refused; allow it with --allow-private"):
        list(crawl(SourceContext(f"http://{host}:{sentinel.port}/", PUBLIC)))
    assert sentinel.hits == []


def test_one_private_address_among_public_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: list[Any] = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("8.8.8.8", "10.0.0.7")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: answer)
    with pytest.raises(NotWanted, match=r"10\.0\.0\.7"):
        guard.resolve("mixed.test", 80, allow_private=False)


def test_a_resolver_that_changes_its_answer_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is called public here (it is loopback too, so that a server can stand there)."""
    public, private = Site("127.0.0.2"), Site("127.0.0.1", 0)
    public.pages(index='<a href="/next">next</a> start')
    public.routes["/robots.txt"] = ""
    for route in ("/", "/robots.txt"):
        body = public.routes[route]
        assert isinstance(body, str)
        public.routes[route] = closing(body)
    real = socket.getaddrinfo
    asked: list[str] = []

    def flip(host: str, port: int, *args: Any, **kw: Any) -> Any:
        if host != "docs.test":
            return real(host, port, *args, **kw)
        asked.append(host)
        address = ("127.0.0.2", public.port) if len(asked) <= 2 else ("127.0.0.1", private.port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

    check = guard.refusal
    monkeypatch.setattr(socket, "getaddrinfo", flip)
    monkeypatch.setattr(guard, "refusal", lambda a: None if str(a) == "127.0.0.2" else check(a))
    try:
        items = list(crawl(SourceContext(f"http://docs.test:{public.port}/", PUBLIC)))
    finally:
        public.close()
        private.close()
    assert [type(item) for item in items] == [Page, Skip]
    assert isinstance(items[1], Skip)
    assert "127.0.0.1, which is refused" in items[1].reason
    assert len(asked) == 3, "each connection resolves exactly once"
    assert private.hits == []


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{port}/", "file:///etc/passwd", "//127.0.0.1:{port}/", "gopher://x/"]
)
def test_redirects_do_not_lead_out(site: Site, sentinel: Site, limits: CrawlLimits, target: str) -> None:
    site.pages(index='<a href="/away">x</a> start')
    site.routes["/away"] = redirect(target.format(port=sentinel.port))
    items = list(crawl(SourceContext(site.url, limits)))
    assert [type(item) for item in items] == [Page, Skip]
    assert sentinel.hits == []


def test_robots_redirect_to_another_address_is_never_followed(
    site: Site, sentinel: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = Site("127.0.0.2")
    public.routes["/robots.txt"] = redirect(f"{sentinel.url}/robots.txt")
    check = guard.refusal
    monkeypatch.setattr(guard, "refusal", lambda a: None if str(a) == "127.0.0.2" else check(a))
    try:
        with pytest.raises(SourceError, match=r"robots\.txt redirects to another site"):
            list(crawl(SourceContext(public.url, PUBLIC)))
    finally:
        public.close()
    assert sentinel.hits == []


def test_proxy_variables_are_ignored(
    site: Site, sentinel: Site, limits: CrawlLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, sentinel.url)
    site.pages(index="hello")
    items = list(crawl(SourceContext(site.url, limits)))
    assert [type(item) for item in items] == [Page]
    assert sentinel.hits == []


def closing(body: str) -> Any:
    def reply(handler: Any) -> None:
        raw = body.encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(raw)))
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(raw)
        handler.close_connection = True

    return reply
