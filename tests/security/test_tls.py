"""Sites over TLS, and at addresses of IPv6: real servers, with certificates that are right, unknown or another's."""

from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.errors import SourceError
from indexer.records import Page
from indexer.source_context import SourceContext
from tests.indexer.server import Reply, Site, page, redirect, send, trusted_tls

LIMITS = CrawlLimits(timeout=20.0, allow_private=("127.0.0.1/32", "::1/128"))


def pages(url: str) -> list[str]:
    return [item.url for item in crawl(SourceContext(url, LIMITS)) if isinstance(item, Page)]


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
    site = Site("::1")
    hosts = []

    def start(handler: BaseHTTPRequestHandler) -> None:
        hosts.append(handler.headers["Host"])
        send(handler, Reply(page("<p>one<a href=two;v=1?x=a&y=b>").encode()))

    site.routes["/"] = start
    site.routes["/two;v=1?x=a&y=b"] = page("<p>two")
    try:
        assert pages(site.url) == [f"{site.url}/", f"{site.url}/two;v=1?x=a&y=b"]
    finally:
        site.close()
    assert hosts == [f"[::1]:{site.port}"]
