"""Real Chromium: pages are drawn, nothing of them reaches the network by itself, and nothing outlives the build."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from indexer.config import CrawlLimits
from indexer.crawl import browser as browser_module
from indexer.crawl.browser import Browser, RenderJob, Resource, find_chromium
from indexer.crawl.crawler import crawl
from indexer.crawl.http_response import PageUnavailable
from indexer.errors import FetchError
from indexer.records import Failure, Item, Page, Skip
from indexer.source_context import SourceContext
from tests.indexer.server import Reply, Site, redirect
from tests.security.memory import descendants, megabytes, watch

pytestmark = pytest.mark.browser
NEAR = CrawlLimits(timeout=300.0, allow_private=("127.0.0.2/32",), render="auto")
LAUNCHER = browser_module._LAUNCHER
ROOT = Path(__file__).parents[3]


JSON = {"Content-Type": "application/json"}
SCRIPT = {"Content-Type": "text/javascript"}
WAYS = ("fetch", "module", "shadow", "request", "frame")
_APP = Path(__file__).with_name("app.js").read_text("utf-8")


def shell(way: str = "fetch", more: str = "") -> str:
    return (
        f'<!doctype html><html lang="en" data-way="{way}"><head><title>Docs</title><link rel=stylesheet href=/a.css>'
        f"</head><body><nav><img src=/logo.png></nav><div id=root></div>"
        f'<script src="/app.js"></script>{more}</body></html>'
    )


def drawn_site(site: Site, pages: int) -> None:
    """Give a site pages /0, /1, …: each leads to the next three, and / to the first."""
    site.routes["/app.js"] = Reply(_APP.encode(), 200, SCRIPT)
    site.routes["/view.js"] = Reply(b"export const load = async from => (await fetch(from)).json();", 200, SCRIPT)
    site.routes["/"] = shell()
    site.routes["/api/.json"] = Reply(json.dumps(content("Start", range(min(1, pages)))).encode(), 200, JSON)
    for number in range(pages):
        further = range(number + 1, min(number + 4, pages))
        site.routes[f"/{number}"] = shell(WAYS[number % len(WAYS)])
        site.routes[f"/api/{number}.json"] = Reply(json.dumps(content(f"Page {number}", further)).encode(), 200, JSON)


def content(title: str, links: range) -> dict[str, object]:
    text = f"{title} tells of lamps and of their wicks, which draw the oil upwards. "
    return {"title": title, "text": text * 8, "links": [f"/{number}" for number in links]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser in the network of the test, so that nothing but what this program does keeps it from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(browser_module, "_LAUNCHER", find_chromium())
        found = Browser()
        yield found
        found.close()


def items(url: str, browser: Browser, limits: CrawlLimits = NEAR) -> list[Item]:
    return list(crawl(SourceContext(url, limits), browser=browser))


def test_every_page_of_a_site_that_scripts_draw_is_found(site: Site, browser: Browser) -> None:
    drawn_site(site, 10)
    found = items(site.url, browser)
    pages = {item.url: item.body.decode() for item in found if isinstance(item, Page)}
    assert set(pages) == {f"{site.url}/", *(f"{site.url}/{number}" for number in range(10))}
    assert all("tells of lamps" in body and 'lang="en"' in body for body in pages.values())
    assert site.hits.count("/app.js") == 1, "scripts are loaded once"
    assert "/logo.png" not in site.hits
    assert "/a.css" not in site.hits
    assert site.agents == {NEAR.user_agent}


ATTEMPTS = Path(__file__).with_name("attempts.js").read_text("utf-8")


def test_nothing_private_is_reached(site: Site, browser: Browser) -> None:
    sentinel = Site("127.0.0.1")
    connections: list[Any] = []
    accept = sentinel._server.process_request
    sentinel._server.process_request = lambda *came: (connections.append(came), accept(*came))  # type: ignore[method-assign]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        script = ATTEMPTS % {"port": sentinel.port, "udp": datagrams.getsockname()[1]}
        site.routes["/"] = shell(more="<script src=/try.js></script>")
        site.routes["/app.js"] = Reply(b"", 200, SCRIPT)
        site.routes["/try.js"] = Reply(script.encode(), 200, SCRIPT)
        site.routes["/hop"] = redirect(f"{sentinel.url}/hop")
        site.routes["/shared.js"] = site.routes["/service.js"] = Reply(b"onconnect = 1", 200, SCRIPT)
        found = items(site.url, browser)
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)
    sentinel.close()
    [page] = [item for item in found if isinstance(item, Page)]
    told = page.body.decode().partition("<h1>Attempts</h1><p>")[2].partition("</p>")[0].split(", ")
    assert len(told) == 24, "all were made"
    assert [attempt for attempt in told if not attempt.endswith(" refused")] == []
    assert connections == []
    assert "/service.js" not in site.hits
    reasons = {item.url: item.reason for item in found if isinstance(item, Skip)}
    assert "not public" in reasons[f"{sentinel.url}/"], "the report says so"
    assert "redirect to another site" in reasons[f"{site.url}/hop"]


def test_what_a_page_may_use_up(site: Site, browser: Browser) -> None:
    scripts = {
        "busy": "while (true) {}",
        "large": "document.body.textContent = 'x'.repeat(200_000)",
        "restless": "setInterval(() => document.body.append('tick '), 20)",
        "hungry": "Promise.all([...Array(40).keys()].map(n => fetch('/data?' + n).then(a => a.text()))).catch(e => e)"
        ".then(() => document.body.innerHTML = '<h1>Hungry</h1>')",
        "leading": "location.href = '/led'",
    }
    links = "".join(f"<a href=/{name}>{name}</a>" for name in scripts)
    site.routes["/"] = f"<h1>Start</h1><p>{'Words of the start page. ' * 20}</p>{links}"
    site.routes["/led"] = f"<h1>Led</h1><p>{'Words of where a script leads. ' * 20}</p>"
    site.routes["/app.js"] = Reply(b"", 200, SCRIPT)
    for name, script in scripts.items():
        site.routes[f"/{name}"] = shell(more=f"<script>{script}</script>")
    for number in range(40):
        site.routes[f"/data?{number}"] = Reply(b"x" * 10_000, 200, JSON)
    limits = CrawlLimits(
        timeout=300.0, allow_private=("127.0.0.2/32",), render="auto", render_timeout=3.0, render_bytes=100_000,
        max_bytes=100_000,
    )  # fmt: skip
    found = items(site.url, browser, limits)
    failed = {item.url.rpartition("/")[2]: item.reason for item in found if isinstance(item, Failure)}
    pages = {item.url.rpartition("/")[2]: item.body for item in found if isinstance(item, Page)}
    assert "never end" in failed.pop("busy")
    assert "over 100,000 characters" in failed.pop("large")
    assert failed == {}
    assert b"tick tick" in pages["restless"]
    assert b"Hungry" in pages["hungry"]
    assert sum(hit.startswith("/data?") for hit in site.hits) < 30
    assert any("that a page may load" in item.reason for item in found if isinstance(item, Skip))
    assert b"where a script leads" in pages["led"]


ALLOCATIONS = {
    "buffers": "a.push(new Uint8Array(64 << 20).fill(1))",
    "shared": "const memory = new WebAssembly.Memory({initial: 1024, maximum: 1024, shared: true});"
    "a.push(new Uint8Array(memory.buffer).fill(1))",
    "canvas": "a.push(new OffscreenCanvas(4096, 4096)); a[i].getContext('2d').fillRect(0, 0, 4096, 4096)",
    "strings": "a.push(new TextDecoder('utf-16le').decode(new Uint8Array(64 << 20).fill(65 + i % 20)))",
}


@pytest.mark.parametrize("kind", ALLOCATIONS)
def test_a_page_cannot_fill_the_memory(site: Site, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take four gigabytes."""
    monkeypatch.setattr(browser_module, "_LAUNCHER", LAUNCHER)
    script = f"const a = []; for (let i = 0; i < 60; i++) {{ {ALLOCATIONS[kind]} }}"
    site.routes["/"] = f"<h1>Start</h1><a href=/large>x</a><p>{'Words of the start page. ' * 20}"
    site.routes["/large"] = shell(more=f"<script>{script}</script>")
    site.routes["/app.js"] = Reply(b"", 200, SCRIPT)
    before = megabytes(os.getpid())  # what other tests have left
    with closing(Browser()) as browser, watch(os.getpid()) as peak:
        found = items(site.url, browser)
    assert [item.url for item in found] == [f"{site.url}/", f"{site.url}/large"]
    assert peak.megabytes - before < 2_000


def test_a_browser_that_is_killed_is_started_again(browser: Browser) -> None:
    is_killed = []

    def load(url: str, *ask: object) -> Resource:
        if not is_killed:
            is_killed.append(kill_chromium())
        return Resource(200, "text/javascript", b"document.title = 'Drawn'")

    job = RenderJob("https://docs.test/", "text/html", b"<script src=/a.js></script>", 10.0, 0.0, 10_000, load)
    with pytest.raises(PageUnavailable, match="ended unexpectedly"):
        browser.render(job, threading.Event())
    assert b"<title>Drawn</title>" in browser.render(job, threading.Event()).html
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(FetchError, match="being stopped"):
        browser.render(job, stopped)


_BUILD = """
import sys
from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.source_context import SourceContext
limits = CrawlLimits(allow_private=True, timeout=300.0, render="on")
for item in crawl(SourceContext(sys.argv[1], limits)):
    print(item.url, flush=True)
"""


def test_nothing_outlives_a_build_that_is_killed(site: Site, tmp_path: Path) -> None:
    """It runs in a network of its own, too, where the kernel allows one."""
    stuck = threading.Event()
    site.routes["/"] = "<p>Start</p><a href=/stuck>x</a>"
    site.routes["/stuck"] = shell()

    def keep(handler: Any) -> None:
        stuck.set()
        site.stopping.wait(60)

    site.routes["/app.js"] = keep
    (tmp_path / "t").mkdir()
    build = subprocess.Popen(
        [sys.executable, "-c", _BUILD, site.url], cwd=ROOT, stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path / "t")},
    )  # fmt: skip
    assert stuck.wait(300)
    below = descendants(build.pid)[1:]
    handles = {pid: os.pidfd_open(pid) for pid in below}
    browser = {pid for pid in below if "chrom" in os.readlink(f"/proc/{pid}/exe")}
    assert len(browser) > 1, "Chromium's processes"
    may_isolate = subprocess.run(["unshare", "--net", "--map-current-user", "true"], check=False).returncode == 0
    here = os.readlink("/proc/self/ns/net")
    assert may_isolate == all(os.readlink(f"/proc/{pid}/ns/net") != here for pid in browser)
    build.send_signal(signal.SIGKILL)
    build.communicate()
    deadline = time.monotonic() + 120
    for handle in handles.values():
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        assert waiting.poll(max(0.0, deadline - time.monotonic()) * 1_000), "a process is still there"
        os.close(handle)
    assert list((tmp_path / "t").iterdir()) == []


def kill_chromium() -> None:
    """Kill the processes of Chromium below this one, and wait for their end."""
    handles = []
    for pid in descendants(os.getpid())[1:]:
        try:
            is_chromium = b"--proxy-server=" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if is_chromium:
                handles.append(os.pidfd_open(pid))
                os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert handles
    for handle in handles:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        assert waiting.poll(60_000)
        os.close(handle)
