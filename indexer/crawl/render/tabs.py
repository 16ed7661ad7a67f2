"""Pages of Chromium, each drawing one document after another. Imported only to draw, as it loads Playwright.

Nothing is let through to the network: the document is the one that the crawler has fetched, its scripts and data come
from the crawler, and no other resource is part of its text.
"""

import asyncio
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, CDPSession, Page, Playwright, Request, Route, async_playwright
from playwright.async_api import Error as PlaywrightError

from embedder.errors import PilotlightError
from indexer.crawl.answers import Unavailable
from indexer.crawl.render.resources import MAX_REQUESTS, Drawn, Order, ScriptRequest

_FLAGS = [
    # Requests that get past the interception end here: no name resolves, and the proxy does not exist.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=http://nowhere.invalid:1",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-gpu",
    "--disable-3d-apis",
    "--disable-remote-fonts",
    "--disable-notifications",
    "--deny-permission-prompts",
    "--blink-settings=imagesEnabled=false",
    "--js-flags=--max-old-space-size=512",  # MB
]
_LAUNCHER = Path(__file__).with_name("chromium.sh")  # takes the network away
_LOADED = frozenset({"script", "xhr", "fetch"})  # resource types that the crawler fetches
_MAX_MOVES = 20
_QUIET = 300  # milliseconds without a change after which a document is taken
_RESTLESS = 2_000  # milliseconds after the last answer in which it may go on changing
_LAST = 3.0  # seconds to read a document whose time is up, or to clear it
_STORAGE = 10_000_000  # bytes that a site may store while it is drawn
_LIFE = 50  # documents before a page is replaced
_MAX_FOLDER = 48  # characters of the folder for temporary files: Chromium has sockets below it
_LOG_MARKS = ("FATAL", "No usable sandbox", "error while loading", "not permitted")  # of lines in Chromium's log
_SIZE = {"width": 1280, "height": 4000}  # a tall view, as many pages draw only what is in view

# Resolves when nothing has changed for so long, or when it is time to take the document as it is.
_WAIT = """([quiet, restless]) => new Promise(done => {
  let still = 0;
  const end = () => { watch.disconnect(); clearTimeout(still); clearTimeout(last); done(true); };
  const again = () => { clearTimeout(still); still = setTimeout(end, quiet); };
  const watch = new MutationObserver(again), last = setTimeout(end, restless);
  watch.observe(document, {subtree: true, childList: true, characterData: true});
  if (document.readyState === "complete") again(); else addEventListener("load", again);
})"""

# The document as HTML, with the content of open shadow trees; null where it is too long. Shadow trees are put in place
# in a copy that runs no scripts.
_TAKE = """([most, address]) => {
  const root = document.documentElement, hosts = [];
  if (!root) return "";
  if (!document.querySelector("base[href]") && location.href.split("#")[0] !== address) {
    const base = document.createElement("base");
    base.href = location.href;
    document.head?.prepend(base);
  }
  const find = tree => {
    for (const element of tree.querySelectorAll("*"))
      if (element.shadowRoot) { hosts.push(element.shadowRoot); find(element.shadowRoot); }
  };
  find(document);
  let html;
  if (hosts.length) {
    const copy = new DOMParser().parseFromString(root.getHTML({shadowRoots: hosts}), "text/html");
    const place = tree => {
      for (const shadow of tree.querySelectorAll("template[shadowrootmode]")) {
        place(shadow.content);
        shadow.replaceWith(shadow.content);
      }
    };
    place(copy);
    for (const {name, value} of root.attributes) copy.documentElement.setAttribute(name, value);
    html = copy.documentElement.outerHTML;
  } else html = root.outerHTML;
  return html.length > most ? null : "<!doctype html>" + html;
}"""


async def launch(program: str) -> tuple[Playwright, Chromium]:
    """Start Chromium, with neither the environment nor the network of the build. Raises an error of Playwright."""
    folder = tempfile.gettempdir()
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    environment["TMPDIR"] = folder if len(folder) < _MAX_FOLDER else "/tmp"  # noqa: S108 - Chromium makes its own folder
    environment |= {"HOME": "/nonexistent", "PILOTLIGHT_CHROMIUM": program}
    playwright = await async_playwright().start()
    try:
        chromium = await playwright.chromium.launch(
            executable_path=_LAUNCHER if os.access(_LAUNCHER, os.X_OK) else program,
            args=_FLAGS,
            env={**environment},
            chromium_sandbox=os.geteuid() != 0,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except BaseException:
        await playwright.stop()
        raise
    return playwright, chromium


def brief(error: Exception) -> str:
    """Return the line of an error that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    marked = [line for line in lines if any(word in line for word in _LOG_MARKS)]
    return (marked or [line for line in lines if line] or [type(error).__name__])[0][:300]


class _Document:
    """A document while it is drawn."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.end = asyncio.timeout(order.seconds)
        self.moves: list[str] = []  # addresses that its scripts lead to
        self.is_open = False
        self.requests = self.pending = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.failure: PilotlightError | None = None  # which ends the crawl

    def begin_request(self) -> bool:
        """Count a request; return False if there were too many."""
        self.requests += 1
        if self.requests > MAX_REQUESTS:
            return False
        self.pending += 1
        self.idle.clear()
        if self.order.delay and (until := self.end.when()) is not None:
            self.end.reschedule(until + self.order.delay)  # the crawler waits before each request
        return True

    def end_request(self) -> None:
        """Note that a request has its answer."""
        self.pending -= 1
        if not self.pending:
            self.idle.set()

    def fail(self, failure: PilotlightError) -> None:
        """End the drawing at once."""
        self.failure = failure
        self.end.reschedule(0)


class Tab:
    """One page of Chromium, with a profile of its own that keeps nothing from one document to the next."""

    def __init__(self, chromium: Chromium, loaders: ThreadPoolExecutor) -> None:
        self._chromium = chromium
        self._loaders = loaders
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._tools: CDPSession | None = None
        self._document: _Document | None = None
        self._count = 0

    async def draw(self, order: Order) -> Drawn:
        """Draw one document; when its time is up, it is taken as it is, and called late.

        Raises:
            Unavailable: its scripts never end, or make too much of it.
            PilotlightError: an error of `load`.
            playwright.async_api.Error: anything else.
        """
        page = await self._open()
        document = self._document = _Document(order)
        self._count += 1
        is_late = False
        try:
            async with document.end:
                await self._send("Storage.overrideQuotaForOrigin", order.url, quotaSize=_STORAGE)
                await page.goto(order.url, wait_until="commit", timeout=0)
                seen = -1
                while seen != document.requests or document.pending:
                    seen = document.requests
                    await document.idle.wait()
                    await page.evaluate(_WAIT, [_QUIET, _RESTLESS])
        except TimeoutError:
            is_late = True
        if document.failure is not None:
            raise document.failure
        try:
            async with asyncio.timeout(_LAST):
                html = await page.evaluate(_TAKE, [order.max_length, order.url])
        except TimeoutError:
            self._count = _LIFE  # the page hangs
            raise Unavailable("it cannot be drawn: its scripts never end") from None
        if html is None:
            raise Unavailable(f"it cannot be drawn: its scripts made more than {order.max_length:,} characters of it")
        return Drawn(str(html).encode("utf-8", "replace"), tuple(document.moves), is_late)

    async def clear(self) -> None:
        """Remove all of the last document, with its scripts."""
        document, self._document = self._document, None
        try:
            if self._page is None or document is None or self._count >= _LIFE or self._page.is_closed():
                await self._close()
                return
            async with asyncio.timeout(_LAST):
                await self._page.goto(document.order.url, timeout=0)  # an empty page now, see `_answer`
                await self._page.context.clear_cookies()
                await self._send("Storage.clearDataForOrigin", document.order.url, storageTypes="all")
        except (PlaywrightError, TimeoutError):
            await self._close()

    async def _open(self) -> Page:
        if self._page is None:
            context = self._context = await self._chromium.new_context(
                service_workers="block", accept_downloads=False, viewport=_SIZE, timezone_id="UTC"
            )
            await context.route("**/*", self._route)
            self._page = page = await context.new_page()
            context.on("page", lambda other: asyncio.ensure_future(other.close()))
            await page.add_init_script("try { sessionStorage.clear() } catch {}")
            self._tools = await context.new_cdp_session(page)
        return self._page

    async def _close(self) -> None:
        context, self._context, self._page, self._count = self._context, None, None, 0
        if context is not None:
            try:
                async with asyncio.timeout(_LAST):
                    await context.close()
            except (PlaywrightError, TimeoutError):
                return  # it ends with the browser

    async def _send(self, command: str, url: str, **arguments: Any) -> None:
        """Send a command of the DevTools protocol about an origin."""
        assert self._tools is not None  # noqa: S101 - opened with the page
        where = urlsplit(url)
        await self._tools.send(command, {"origin": f"{where.scheme}://{where.netloc}", **arguments})

    async def _route(self, route: Route, request: Request) -> None:
        try:
            await self._answer(route, request)
        except PlaywrightError:
            return  # the page is gone

    async def _answer(self, route: Route, request: Request) -> None:
        """Answer a request of the browser, or refuse it."""
        document, kind = self._document, request.resource_type
        if not request.url.startswith(("http://", "https://")):
            await route.abort()
        elif document is None:  # an empty page of the same site, for which the browser needs no other process
            await (route.fulfill(content_type="text/html", body="") if kind == "document" else route.abort())
        elif kind == "document":
            await self._navigate(route, request, document)
        elif kind == "stylesheet":
            await route.fulfill(status=200, content_type="text/css", body="")  # scripts may wait until it is loaded
        elif kind in _LOADED and request.method == "GET":
            await self._load(route, request, document)
        else:
            await route.abort()

    async def _navigate(self, route: Route, request: Request, document: _Document) -> None:
        if self._page is None or request.frame != self._page.main_frame:
            await route.abort()
        elif not document.is_open:
            document.is_open = True
            await route.fulfill(status=200, content_type=document.order.content_type, body=document.order.body)
        else:  # a script leads elsewhere, which the crawler may follow
            if request.method == "GET" and len(document.moves) < _MAX_MOVES:
                document.moves.append(request.url)
            await route.abort("aborted")  # leaves the document as it is

    async def _load(self, route: Route, request: Request, document: _Document) -> None:
        if not document.begin_request():
            await route.abort()
            return
        load: Callable[[ScriptRequest], Any] = document.order.load
        wanted = ScriptRequest(request.url, request.resource_type == "script", request.headers)
        try:
            resource = await asyncio.get_running_loop().run_in_executor(self._loaders, load, wanted)
            if document is not self._document or resource is None:
                await route.abort()
            else:
                headers = {**resource.headers, "content-type": resource.content_type}
                await route.fulfill(status=resource.status, headers=headers, body=resource.body)
        except PilotlightError as error:
            document.fail(error)
        finally:
            document.end_request()
