"""Secrets of two origins, over HTTP and TLS, that lead to each other and to a third: where any of it is found again."""

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme

from indexer.generation.generation import Generation
from tests.indexer.crawl.doors import Door
from tests.indexer.server import Reply, Site, page, redirect, send

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "reader", "correct horse battery"
KEY, TOKEN, COOKIE = "k3y-of-the-wiki-zq", "t0ken-of-the-shop-zq", "c00kie-of-the-shop-zq"
PAIR = base64.b64encode(f"{USER}:{PASSWORD}".encode())
FRESH = "fr3sh-cookie-of-the-shop-zq"  # that the shop sets
OF_WIKI = [PASSWORD.encode(), PASSWORD.replace(" ", "+").encode(), KEY.encode(), PAIR]
OF_SHOP = [TOKEN.encode(), COOKIE.encode(), FRESH.encode()]
HIDDEN = [*OF_WIKI, *OF_SHOP, *(base64.b64encode(secret)[:-4] for secret in (*OF_WIKI, *OF_SHOP)), b"horse"]


@dataclass
class World:
    """The sites, what each was sent, and a process that builds."""

    folder: Path
    wiki: Door
    shop: Site
    stranger: Site
    builder: subprocess.Popen[str]
    sent: dict[str, list[bytes]] = field(default_factory=lambda: {"wiki": [], "shop": [], "stranger": []})
    asked: int = 0
    kill_at: int = 0  # number of the request at which its sender is killed
    lines: set[bytes] = field(default_factory=set)  # command lines of those that asked
    lock: threading.Lock = field(default_factory=threading.Lock)

    def come(self, name: str, handler: BaseHTTPRequestHandler) -> None:
        with self.lock:  # three servers count
            self.asked += 1
            number = self.asked
        self.sent[name].append(f"{handler.requestline}\n{handler.headers}".encode())
        sender = int(handler.headers["User-Agent"].partition("/")[2])
        self.lines.add(Path(f"/proc/{sender}/cmdline").read_bytes())
        if number == self.kill_at:
            os.kill(sender, signal.SIGKILL)

    def build(self, name: str, *, kill_at: int = 0, dies: str = "", lasts: int = 100) -> int:
        """Return how a build has ended; the wiki takes the password for so many pages."""
        self.asked, self.kill_at = 0, kill_at
        self.wiki.left = lasts
        job = {"config": "pilotlight.toml", "index": name, "log": f"{name}.log", "dies": dies}
        job |= {key: str(self.folder / value) for key, value in job.items() if key != "dies"}
        assert self.builder.stdin is not None
        assert self.builder.stdout is not None
        print(json.dumps(job), file=self.builder.stdin, flush=True)
        return int(self.builder.stdout.readline())

    def found(self) -> list[tuple[str, bytes]]:
        """Files that have a secret in them, with it, other than those that are its place."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.parent.name != "private"]
        assert len(files) > 1
        return [(str(path), secret) for path in files for secret in HIDDEN if secret in path.read_bytes()]


def headed(handler: BaseHTTPRequestHandler) -> Reply:
    """A page that shows with what it was asked, and sends that back wherever it can."""
    everything = " ".join(handler.headers.values())
    cookie = handler.headers.get("Cookie", "")
    headers = {"Content-Type": "text/html", "ETag": f'"{cookie}"', "Link": f"</x?{cookie}>; rel=canonical"}
    return Reply(page(f"<p>{everything}<a href='/r?{cookie}'>x</a>", everything).encode(), 200, headers)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "private").mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "private" / "authority.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    wiki = Door(PAIR.decode(), header="Authorization", pages=4)
    shop, stranger = Site(tls=context), Site()
    for name, text in (("cookies.txt", f"localhost\tFALSE\t/\tTRUE\t0\told\t{COOKIE}\n"), ("token", TOKEN)):
        (folder / "private" / name).touch(mode=0o600)
        (folder / "private" / name).write_text(text)
    (folder / "pilotlight.toml").write_text(
        f"""
        [[source]]
        url = "{wiki.url}/p0"
        [[source]]
        url = "{shop.url}/"
        [[source]]
        url = "{stranger.url}/"

        [[credentials]]
        origin = "{wiki.url}"
        headers = {{ X-Key = {{ env = "WIKI_KEY" }} }}
        basic = {{ user = "{USER}", password = {{ env = "WIKI_PASSWORD" }} }}

        [[credentials]]
        origin = "{shop.url}"
        bearer = {{ file = "private/token" }}
        cookies = {{ file = "private/cookies.txt" }}
        """
    )
    builder = subprocess.Popen(
        [sys.executable, "-m", "tests.security.crasher"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ
        | {"WIKI_PASSWORD": PASSWORD, "WIKI_KEY": KEY, "SSL_CERT_FILE": str(folder / "private" / "authority.pem")},
    )
    made = World(folder, wiki, shop, stranger, builder)
    ways = f"<a href=/to1>1</a><a href=/to2>2</a><a href=/to3>3</a><a href={stranger.url}/out>4</a><a href=/echo>5</a>"
    for site, others in ((wiki, (shop, stranger)), (shop, (wiki, stranger)), (stranger, (wiki, shop))):
        for number, other in enumerate(others, start=1):
            site.routes[f"/to{number}"] = redirect(f"{other.url}/p0")
        site.routes["/to3"] = Reply(b"", 302, {"Location": "/no where\x01"})
        site.routes["/echo"] = lambda handler: send(handler, headed(handler))
    wiki.routes["/p0"] = wiki.guarded(page(f"<p>Start of the wiki.{ways}<a href=/p1>next</a>"))
    cookie = {"Content-Type": "text/html", "Set-Cookie": f"new={FRESH}; Secure"}
    shop.routes["/"] = Reply(page(f"<p>Start of the shop.{ways}<a href=/bad>x</a>").encode(), 200, cookie)
    shop.routes["/bad"] = broken
    stranger.routes["/"] = page(f"<p>Start of the stranger.{ways}")
    for name, site in (("wiki", wiki), ("shop", shop), ("stranger", stranger)):
        site.came = lambda handler, name=name: made.come(name, handler)  # type: ignore[method-assign, misc]
    yield made
    builder.kill()
    builder.communicate()
    for site in (wiki, shop, stranger):
        site.close()


def broken(handler: BaseHTTPRequestHandler) -> None:
    """An answer that is none, with what it was asked with."""
    handler.close_connection = True
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: x=" + handler.headers["Authorization"].encode() + b"\x00\r\n\r\n"
    )


def test_nothing_is_found_after_a_build_or_a_crash_at_any_request(world: World) -> None:
    assert world.build("whole") == 0
    asked, log = world.asked, (world.folder / "whole.log").read_text()
    assert "DEBUG:httpcore" in log
    assert re.search(r"bad: an answer that is no HTTP", log)
    generation = Generation.open(world.folder / "whole")
    assert generation.manifest.counts.documents == 9
    generation.close()
    assert asked > 20
    for number in range(1, asked + 1, 5):
        assert world.build(f"killed-{number}", kill_at=number) == -signal.SIGKILL
    for step in ("embed", "publish"):
        assert world.build(f"killed-{step}", dies=step) == -signal.SIGKILL
    assert len(list(world.folder.rglob("crawl.sqlite"))) > 5, "what was fetched is kept"
    assert world.found() == []


def test_a_session_that_ends_leaves_the_live_index_and_shows_nothing(world: World) -> None:
    assert world.build("live") == 0
    before = (world.folder / "live" / "CURRENT").read_bytes()
    assert world.build("live", lasts=2) == 2
    assert (world.folder / "live" / "CURRENT").read_bytes() == before
    told = (world.folder / "live.log").read_text().splitlines()[-1]
    assert re.fullmatch(r"indexer.errors.SessionEnded: http://\S+ asks to log in at \S+: its .* must be renewed", told)
    assert world.found() == []


def test_nobody_else_was_sent_anything(world: World) -> None:
    """After the tests above."""
    sent = {name: b"\n".join(requests) for name, requests in world.sent.items()}
    assert all(secret in sent["wiki"] for secret in (KEY.encode(), PAIR))
    assert all(secret in sent["shop"] for secret in OF_SHOP)
    assert [secret for secret in OF_WIKI if secret in sent["shop"] + sent["stranger"]] == []
    assert [secret for secret in OF_SHOP if secret in sent["wiki"] + sent["stranger"]] == []
    assert [secret for secret in HIDDEN for line in world.lines if secret in line] == []
