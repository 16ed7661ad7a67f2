"""Secrets of two origins, over HTTP and TLS, that lead to each other and to a third: where any of it is found again."""

import base64
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.network.credentials import Basic, Credential, InEnvironment, InFile
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport, Progress
from tests.dummy import DummyEmbedder
from tests.indexer.crawl.doors import Door
from tests.indexer.server import Reply, Site, page, redirect, send, trusted_tls

PASSWORD = "correct horse battery"
KEY, TOKEN, COOKIE = "k3y-of-the-wiki-zq", "t0ken-of-the-shop-zq", "c00kie-of-the-shop-zq"
PAIR = base64.b64encode(f"reader:{PASSWORD}".encode())
FRESH = "fr3sh-cookie-of-the-shop-zq"  # that the shop sets
OF_WIKI = [PASSWORD.encode(), PASSWORD.replace(" ", "+").encode(), KEY.encode(), PAIR]
OF_SHOP = [TOKEN.encode(), COOKIE.encode(), FRESH.encode()]
HIDDEN = [*OF_WIKI, *OF_SHOP, *(base64.b64encode(secret)[:-4] for secret in (*OF_WIKI, *OF_SHOP)), b"horse"]


@dataclass
class World:
    """The sites, their credentials, and what each was sent."""

    folder: Path
    sites: dict[str, Site]
    credentials: tuple[Credential, ...]
    log: pytest.LogCaptureFixture
    said: io.StringIO = field(default_factory=io.StringIO)
    sent: dict[str, list[bytes]] = field(default_factory=lambda: {"wiki": [], "shop": [], "stranger": []})

    def build(self) -> BuildReport:
        config = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=300.0), credentials=self.credentials)
        sources = [f"{site.url}/{'p0' if name == 'wiki' else ''}" for name, site in self.sites.items()]
        progress = Progress(self.said)
        return build(sources, self.folder / "index", DummyEmbedder(), config, progress=progress)

    def found(self, *more: object) -> list[bytes]:
        """Return the secrets that stand in a file of the index, the log, or what was said."""
        files = [path.read_bytes() for path in (self.folder / "index").rglob("*") if path.is_file()]
        text = b"".join([*files, f"{self.said.getvalue()}{self.log.text}{more}".encode()])
        return [secret for secret in HIDDEN if secret in text]


def headed(handler: BaseHTTPRequestHandler) -> None:
    """Send a page that shows with what it was asked, and sends that back wherever it can."""
    everything, cookie = " ".join(handler.headers.values()), handler.headers.get("Cookie", "")
    headers = {"Content-Type": "text/html", "ETag": f'"{cookie}"', "Link": f"</x?{cookie}>; rel=canonical"}
    send(handler, Reply(page(f"<p>{everything}<a href='/r?{cookie}'>x</a>", everything).encode(), 200, headers))


def broken(handler: BaseHTTPRequestHandler) -> None:
    """Send an answer that is none, with what it was asked with."""
    handler.close_connection = True
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: x=" + handler.headers["Authorization"].encode() + b"\x00\r\n\r\n"
    )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    caplog.set_level(logging.DEBUG)
    context = trusted_tls(tmp_path, monkeypatch, "localhost")
    wiki, shop, stranger = Door(PAIR.decode(), header="Authorization", pages=4), Site(tls=context), Site()
    for name, text in (("cookies.txt", f"localhost\tFALSE\t/\tTRUE\t0\told\t{COOKIE}\n"), ("token", TOKEN)):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("WIKI_PASSWORD", PASSWORD)
    monkeypatch.setenv("WIKI_KEY", KEY)
    basic = Basic("reader", InEnvironment("WIKI_PASSWORD"))
    credentials = (
        Credential(wiki.url, basic=basic, headers={"X-Key": InEnvironment("WIKI_KEY")}),
        Credential(shop.url, bearer=InFile(tmp_path / "token"), cookies=InFile(tmp_path / "cookies.txt")),
    )
    made = World(tmp_path, {"wiki": wiki, "shop": shop, "stranger": stranger}, credentials, caplog)
    ways = f"<a href=/to1>1</a><a href=/to2>2</a><a href=/to3>3</a><a href={stranger.url}/out>4</a><a href=/echo>5</a>"
    for name, site in made.sites.items():
        for number, other in enumerate((other for other in made.sites.values() if other is not site), start=1):
            site.routes[f"/to{number}"] = redirect(f"{other.url}/p0")
        site.routes |= {"/to3": Reply(b"", 302, {"Location": "/no where\x01"}), "/echo": headed}
        site.came = lambda handler, name=name: made.sent[name].append(  # type: ignore[method-assign, misc]
            f"{handler.requestline}\n{handler.headers}".encode()
        )
    wiki.routes["/p0"] = wiki.guarded(page(f"<p>Start of the wiki.{ways}<a href=/p1>next</a>"))
    cookie = {"Content-Type": "text/html", "Set-Cookie": f"new={FRESH}; Secure"}
    shop.routes["/"] = Reply(page(f"<p>Start of the shop.{ways}<a href=/bad>x</a>").encode(), 200, cookie)
    shop.routes["/bad"] = broken
    stranger.routes["/"] = page(f"<p>Start of the stranger.{ways}")
    yield made
    for site in made.sites.values():
        site.close()


def test_nothing_is_found_after_a_build_and_nobody_else_was_sent_anything(world: World) -> None:
    report = world.build()
    assert report.documents == 9
    assert "receive_response_body" in world.log.text
    assert any("the response is not valid HTTP" in failure.reason for failure in report.failed)
    assert world.found(report.table(), json.dumps(report.as_dict())) == []
    sent = {name: b"\n".join(requests) for name, requests in world.sent.items()}
    assert all(secret in sent["wiki"] for secret in (KEY.encode(), PAIR))
    assert all(secret in sent["shop"] for secret in OF_SHOP)
    assert [secret for secret in OF_WIKI if secret in sent["shop"] + sent["stranger"]] == []
    assert [secret for secret in OF_SHOP if secret in sent["wiki"] + sent["stranger"]] == []
