"""Sites over TLS, and at addresses of IPv6: real servers, with certificates that are right, unknown or another's."""

import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.errors import SourceError
from indexer.records import Page
from indexer.source_context import SourceContext
from tests.indexer.server import Reply, Site, page, redirect, send

LIMITS = CrawlLimits(timeout=20.0, allow_private=("127.0.0.1/32", "::1/128"))


def pages(url: str) -> list[str]:
    return [item.url for item in crawl(SourceContext(url, LIMITS)) if isinstance(item, Page)]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def serve(authority: trustme.CA) -> Iterator[Callable[[str], Site]]:
    """Start a site on loopback with a certificate for a name."""
    sites = []

    def start(name: str) -> Site:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
        site = Site(tls=context)
        sites.append(site)
        return site

    yield start
    for site in sites:
        site.close()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process trusts the authority, as one does whose machine has it installed."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


@pytest.mark.usefixtures("trusted")
def test_a_site_over_tls(serve: Callable[[str], Site]) -> None:
    site = serve("localhost")
    site.pages(index="<p>one<a href=/two>", two="<p>two<a href=/moved>", three="<p>three")
    site.routes["/moved"] = redirect("/three")
    assert pages(site.url) == [f"{site.url}{path}" for path in ("/", "/two", "/three")]


@pytest.mark.parametrize(
    ("name", "trust", "reason"),
    [("localhost", False, "certificate verify failed"), ("other.test", True, "Hostname mismatch")],
)
def test_a_certificate_that_proves_nothing(
    serve: Callable[[str], Site], request: pytest.FixtureRequest, name: str, trust: bool, reason: str
) -> None:
    if trust:
        request.getfixturevalue("trusted")
    site = serve(name)
    site.pages(index="<p>one")
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
