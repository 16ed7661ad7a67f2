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
from indexer.crawl.answers import Unavailable
from indexer.crawl.browser import Browser, Order, Resource, find_chromium
from indexer.crawl.crawler import crawl
from indexer.errors import FetchError
from indexer.records import Failure, Item, Page, Skip
from indexer.source_context import SourceContext
from tests.indexer.server import Reply, Site, redirect
from tests.security.memory import descendants, megabytes, watch

pytestmark = pytest.mark.browser
NEAR = CrawlLimits(timeout=20.0, allow_private=("127.0.0.2/32",), render="auto")
LAUNCHER = browser_module._LAUNCHER
ROOT = Path(__file__).parents[3]


JSON = {"Content-Type": "application/json"}
SCRIPT = {"Content-Type": "text/javascript"}
WAYS = ("fetch", "module", "shadow", "request", "frame")
_APP = """
const root = document.getElementById("root"), way = document.documentElement.dataset.way;
const html = page => `<h1>${page.title}</h1><p>${page.text}</p>` +
  page.links.map(link => `<a href="${link}">further</a>`).join(" ");
const draw = page => { document.title = page.title; root.innerHTML = html(page); };
const data = "/api" + location.pathname + ".json";
if (way === "fetch") fetch(data).then(answer => answer.json()).then(draw);
if (way === "module") import("/view.js").then(async view => draw(await view.load(data)));
if (way === "shadow") {
  customElements.define("a-page", class extends HTMLElement {
    async connectedCallback() {
      const page = await (await fetch(data)).json();
      document.title = page.title;
      this.attachShadow({mode: "open"}).innerHTML = html(page);
    }
  });
  root.innerHTML = "<a-page></a-page>";
}
if (way === "request") {
  const ask = new XMLHttpRequest();
  ask.onload = () => setTimeout(() => draw(JSON.parse(ask.responseText)), 100);
  ask.open("GET", data);
  ask.send();
}
if (way === "frame") requestAnimationFrame(async () => draw(await (await fetch(data)).json()));
"""


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


ATTEMPTS = """
const at = "127.0.0.1:%(port)d", told = [];
const tell = async (name, attempt) => {
  const slow = new Promise((_, fail) => setTimeout(() => fail("late"), 800));
  try { await Promise.race([attempt(), slow]); told.push(name + " DONE"); } catch { told.push(name + " refused"); }
};
const element = (tag, fields) => new Promise((done, fail) =>
  document.body.append(Object.assign(document.createElement(tag), {onload: done, onerror: fail}, fields)));
const socket = make => new Promise((done, fail) => {
  const made = make(); made.onopen = made.onmessage = done; made.onerror = fail;
});
const worker = code => new Promise((done, fail) => {
  const made = new Worker(URL.createObjectURL(new Blob([code], {type: "text/javascript"})));
  made.onmessage = done; made.onerror = fail;
});
const call = servers => new Promise((done, fail) => {
  const peer = new RTCPeerConnection({iceServers: servers});
  peer.createDataChannel("a");
  peer.onicecandidate = event => event.candidate ? (/srflx|relay/.test(event.candidate.candidate) && done()) : fail();
  peer.createOffer().then(offer => peer.setLocalDescription(offer));
});
const waits = setInterval(() => document.getElementById("root").append("still trying "), 100);
Promise.all([
  tell("fetch", () => fetch(`http://${at}/`, {mode: "no-cors"})),
  tell("post", () => fetch(`http://${at}/`, {mode: "no-cors", method: "POST", body: "a"})),
  tell("localhost", () => fetch(`http://localhost:%(port)d/`, {mode: "no-cors"})),
  tell("number", () => fetch(`http://2130706433:%(port)d/`, {mode: "no-cors"})),
  tell("mapped", () => fetch(`http://[::ffff:127.0.0.1]:%(port)d/`, {mode: "no-cors"})),
  tell("kept alive", () => fetch(`http://${at}/`, {mode: "no-cors", keepalive: true})),
  tell("redirect", () => fetch("/hop", {mode: "no-cors"})),
  tell("file", () => fetch("file:///etc/passwd")),
  tell("image", () => element("img", {src: `http://${at}/a.png`})),
  tell("script", () => element("script", {src: `http://${at}/a.js`})),
  tell("style", () => element("link", {rel: "stylesheet", href: `http://${at}/a.css`}).then(() => {
    if (![...document.styleSheets].some(sheet => sheet.cssRules.length)) throw 0; })),
  tell("prefetch", () => element("link", {rel: "prefetch", href: `http://${at}/p`})),
  tell("connect", () => element("link", {rel: "preconnect", href: `http://${at}`})),
  tell("video", () => new Promise((done, fail) => Object.assign(new Audio(`http://${at}/a.mp3`),
    {onloadeddata: done, onerror: fail}).load())),
  tell("socket", () => socket(() => new WebSocket(`ws://${at}/`))),
  tell("own socket", () => socket(() => new WebSocket(`ws://${location.host}/`))),
  tell("events", () => socket(() => new EventSource(`http://${at}/`))),
  tell("stun", () => call([{urls: "stun:127.0.0.1:%(udp)d"}])),
  tell("turn", () => call([{urls: `turn:${at}?transport=tcp`, username: "a", credential: "b"}])),
  tell("transport", async () => { await new WebTransport(`https://127.0.0.1:%(udp)d/`).ready; }),
  tell("worker", () => worker(`fetch("http://${at}/", {mode: "no-cors"}).then(postMessage)`)),
  tell("imported", () => worker(`importScripts("http://${at}/a.js"); postMessage(1)`)),
  tell("shared", () => new Promise((done, fail) => {
    const made = new SharedWorker("/shared.js"); made.port.onmessage = done; made.onerror = fail; })),
  tell("service", () => navigator.serviceWorker.register("/service.js").then(found => {
    if (!found) throw 0; })),
]).then(() => {
  clearInterval(waits);
  navigator.sendBeacon(`http://${at}/beacon`, "a");
  const frame = document.createElement("iframe");
  frame.src = `http://${at}/frame`;
  document.body.append(frame);
  for (const where of ["file:///etc/passwd", `http://${at}/file.zip`]) {
    const link = Object.assign(document.createElement("a"), {href: where, download: "a"});
    document.body.append(link);
    link.click();
  }
  window.open(`http://${at}/opened`);
  document.body.insertAdjacentHTML("beforeend", `<form id=f method=post action="http://${at}/form"></form>`);
  document.getElementById("f").submit();
  location.href = `http://${at}/moved`;
  document.getElementById("root").innerHTML = `<h1>Attempts</h1><p>${told.join(", ")}</p>`;
});
"""


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
        timeout=20.0, allow_private=("127.0.0.2/32",), render="auto", render_timeout=3.0, render_bytes=100_000,
        max_bytes=100_000,
    )  # fmt: skip
    found = items(site.url, browser, limits)
    failed = {item.url.rpartition("/")[2]: item.reason for item in found if isinstance(item, Failure)}
    pages = {item.url.rpartition("/")[2]: item.body for item in found if isinstance(item, Page)}
    assert "never end" in failed.pop("busy")
    assert "made more than 100,000 characters" in failed.pop("large")
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

    order = Order("https://docs.test/", "text/html", b"<script src=/a.js></script>", 10.0, 0.0, 10_000, load)
    with pytest.raises(Unavailable, match="was lost"):
        browser.draw(order, threading.Event())
    assert b"<title>Drawn</title>" in browser.draw(order, threading.Event()).html
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(FetchError, match="being stopped"):
        browser.draw(order, stopped)


_BUILD = """
import sys
from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.source_context import SourceContext
limits = CrawlLimits(allow_private=True, timeout=60.0, render="on")
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
    assert stuck.wait(60)
    below = descendants(build.pid)[1:]
    handles = {pid: os.pidfd_open(pid) for pid in below}
    browser = {pid for pid in below if "chrom" in os.readlink(f"/proc/{pid}/exe")}
    assert len(browser) > 1, "Chromium's processes"
    may_isolate = subprocess.run(["unshare", "--net", "--map-current-user", "true"], check=False).returncode == 0
    here = os.readlink("/proc/self/ns/net")
    assert may_isolate == all(os.readlink(f"/proc/{pid}/ns/net") != here for pid in browser)
    build.send_signal(signal.SIGKILL)
    build.communicate()
    deadline = time.monotonic() + 40
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
        assert waiting.poll(10_000)
        os.close(handle)
