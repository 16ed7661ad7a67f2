"""Requests through a proxy: only where the setting says so, and only to what the guard allows."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.errors import ConfigError, SourceError
from indexer.network.http import proxy_for
from indexer.records import Page
from indexer.source_context import SourceContext
from indexer.sources.reading import Reading, read_sources
from indexer.stores.milvus import _CHANNEL
from rag.answer.completion import complete
from rag.answer.prompt import Endpoint
from rag.client import Client
from rag.errors import ClientError, EndpointFailed
from rag.settings import load
from tests.indexer.server import page

HOST = "intranet.invalid"


class Proxy:
    """Serves one page for all addresses of a host; `asked` holds what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.asked.append(self.path)
                body = page("Cranes are read through the proxy.").encode() if self.path.endswith("/") else b""
                self.send_response(proxy.status if body else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_HEAD = do_PUT = do_GET

            def do_CONNECT(self) -> None:
                proxy.asked.append(self.path)
                self.send_error(502)

            def log_message(self, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    made = Proxy()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, made.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "direct.invalid,.local.invalid,port.invalid:80,192.0.2.0/24, 2001:db8::/32")
    monkeypatch.setattr("indexer.crawl.fetch._BACKOFF", 0.01)
    yield made
    made.server.shutdown()
    made.server.server_close()


def read(host: str, setting: str, *, allow: bool | tuple[str, ...] = True) -> list[str]:
    limits = CrawlLimits(allow_private=allow, http_proxy=setting, timeout=300.0)
    return [item.url for item in crawl(SourceContext(f"http://{host}/", limits)) if isinstance(item, Page)]


def test_a_site_that_only_the_proxy_reaches(proxy: Proxy) -> None:
    for setting in ("environment", proxy.url):
        assert read(HOST, setting) == [f"http://{HOST}/"]
    assert set(proxy.asked) >= {f"http://{HOST}/robots.txt", f"http://{HOST}/"}


def test_the_environment_alone_says_nothing(proxy: Proxy) -> None:
    with pytest.raises(SourceError, match=rf"cannot resolve {HOST}.*; the proxy in the environment is used only with"):
        read(HOST, "")
    for host in ("direct.invalid", "a.local.invalid"):
        with pytest.raises(SourceError, match="cannot resolve"):
            read(host, "environment")
    assert proxy.asked == []


@pytest.mark.parametrize(
    ("host", "reason"),
    [("10.0.0.1", "not public"), ("[::ffff:10.0.0.1]", "not public"), (HOST, "only the proxy can resolve")],
)
def test_the_proxy_is_asked_for_public_addresses_alone(proxy: Proxy, host: str, reason: str) -> None:
    for allow in (False, ("10.9.0.0/16",)):
        with pytest.raises(SourceError, match=reason):
            read(host, proxy.url, allow=allow)
    assert proxy.asked == []


def test_over_tls_a_proxy_sees_the_host_alone(proxy: Proxy) -> None:
    with pytest.raises(SourceError, match="the proxy refused the request: 502"):
        list(crawl(SourceContext(f"https://{HOST}/secret", CrawlLimits(allow_private=True, http_proxy=proxy.url))))
    assert set(proxy.asked) == {f"{HOST}:443"}


@pytest.mark.parametrize("source", [f"git+https://{HOST}/x.git", "s3://bucket/x"])
@pytest.mark.parametrize("setting", ["", "environment", "url"])
def test_repositories_and_buckets(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, setting: str
) -> None:
    for name, value in {"ENDPOINT_URL": f"http://{HOST}", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_REGION", "x")
    monkeypatch.setattr("indexer.sources.bucket._RETRY", {"max_retries": 0})
    http_proxy = proxy.url if setting == "url" else setting
    limits = CrawlLimits(allow_private=True, http_proxy=http_proxy, timeout=5.0)
    with pytest.raises(SourceError):
        list(read_sources([source], Reading(limits, scratch=tmp_path)))
    assert any(HOST in path for path in proxy.asked) is bool(setting)


@pytest.mark.parametrize("setting", ["", "environment"])
def test_written_answers(proxy: Proxy, setting: str) -> None:
    with pytest.raises(EndpointFailed):
        list(complete(Endpoint(f"http://{HOST}/v1/chat/completions", "m", "k", http_proxy=setting), []))
    assert bool(proxy.asked) is bool(setting)


@pytest.mark.parametrize("setting", ["", "environment"])
def test_the_client_of_a_server(proxy: Proxy, setting: str) -> None:
    with Client(f"http://{HOST}", "key", patience=0, http_proxy=setting) as client, pytest.raises(ClientError):
        client.status()
    assert bool(proxy.asked) is bool(setting)


def test_a_milvus_server(proxy: Proxy) -> None:
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(f"{HOST}:19530", [*_CHANNEL.items()]) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/x/y")(b"", timeout=300)
    assert proxy.asked == []


def test_this_machine_is_never_asked_for_through_a_proxy(proxy: Proxy) -> None:
    for host in ("127.0.0.1:8080", "localhost", "[::1]"):
        assert proxy_for(f"http://{host}/", "environment") is None
        assert proxy_for(f"http://{host}/", proxy.url) is None
    assert proxy_for("https://example.org/", "environment") == proxy.url


@pytest.mark.parametrize(
    ("url", "is_direct"),
    [
        ("http://port.invalid/", True), ("http://port.invalid:8080/", False), ("https://port.invalid/", False),
        ("http://192.0.2.7:8080/", True), ("http://192.0.3.7/", False), ("https://[2001:db8::7]/", True),
    ],
)  # fmt: skip
def test_ports_and_networks_without_a_proxy(proxy: Proxy, url: str, is_direct: bool) -> None:
    assert proxy_for(url, "environment") == (None if is_direct else proxy.url)


@pytest.mark.parametrize("is_down", [False, True])
def test_errors_name_the_proxy(proxy: Proxy, is_down: bool) -> None:
    proxy.status = 407
    if is_down:
        proxy.server.server_close()
    with pytest.raises(SourceError, match=rf"(HTTP 407|refused); the request went to the proxy {proxy.url[7:]}"):
        read(HOST, proxy.url)


@pytest.mark.parametrize("value", ["proxy:3128", "socks5://proxy:1080", "http://user:word@proxy:3128", "yes"])
def test_settings_that_are_no_proxy(value: str) -> None:
    with pytest.raises(ConfigError, match="http_proxy must be environment, or"):
        load({"http_proxy": value}, {}).build_config()
