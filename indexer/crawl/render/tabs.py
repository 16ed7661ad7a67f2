"""Pages of Chromium, each drawing one document after another.

Nothing is let through to the network: the document is the one that the crawler has fetched, its scripts and data come
from the crawler, and no other resource is part of its text.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from embedder.errors import PilotlightError
from indexer.crawl.answers import Unavailable

if TYPE_CHECKING:  # loaded only to draw
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Route

_LOADED = frozenset({"script", "xhr", "fetch"})  # resource types that the crawler fetches
MAX_REQUESTS = 200  # of one document
_MAX_MOVES = 20
_QUIET = 300  # milliseconds without a change after which a document is taken
_RESTLESS = 2_000  # milliseconds after the last answer in which it may go on changing
_LAST = 3.0  # seconds to read a document whose time is up, or to close its page
_STORAGE = 10_000_000  # bytes that a site may store while it is drawn
_LIFE = 50  # documents before a page is replaced, so that its leaks do not add up
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


@dataclass(frozen=True, slots=True)
class Resource:
    """The answer to a request of a script."""

    status: int
    content_type: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """A document to be drawn."""

    url: str
    content_type: str  # with its charset, if there is one
    body: bytes = field(repr=False)
    seconds: float  # time limit
    delay: float  # seconds more for each request, which the crawler waits
    max_length: int  # characters of the drawn document
    # fetches a resource, None to refuse it; takes its address, whether it is a script, and the headers that the browser
    # would send, by name in lower case; called in other threads
    load: Callable[[str, bool, Mapping[str, str]], Resource | None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A document as its scripts made it."""

    html: bytes = field(repr=False)  # in UTF-8
    moves: tuple[str, ...]  # addresses that a script wanted to lead to instead
    is_late: bool  # whether it was taken because its time was up


class Tab:
    """One page of Chromium, with a profile of its own that keeps nothing from one document to the next."""

    def __init__(self, chromium: "Chromium", loaders: ThreadPoolExecutor) -> None:
        self._chromium, self._loaders = chromium, loaders
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._drawing: _Drawing | None = None
        self._left = 0  # documents before the page is replaced

    async def draw(self, order: Order) -> Drawn:
        """Draw one document; see `_Drawing`."""
        if self._page is None:
            self._context = context = await self._chromium.new_context(
                service_workers="block", accept_downloads=False, viewport=_SIZE, timezone_id="UTC"
            )
            await context.route("**/*", self._answer)
            self._page = page = await context.new_page()
            context.on("page", lambda other: asyncio.ensure_future(other.close()))
            self._left = _LIFE
            await page.add_init_script("try { sessionStorage.clear() } catch {}")
            self._tools: CDPSession = await context.new_cdp_session(page)
        self._drawing = _Drawing(order, self._page, self._loaders)
        where = urlsplit(order.url)
        self._origin = f"{where.scheme}://{where.netloc}"
        await self._tools.send("Storage.overrideQuotaForOrigin", {"origin": self._origin, "quotaSize": _STORAGE})
        return await self._drawing.draw()

    async def clear(self) -> None:
        """Remove all of the last document, with its scripts; where that fails, the page is closed."""
        from playwright.async_api import Error as PlaywrightError

        drawing, self._drawing, page = self._drawing, None, self._page
        self._left -= 1
        with suppress(PlaywrightError, TimeoutError):  # it is closed, or hangs
            if drawing is not None and page is not None and self._left > 0:
                async with asyncio.timeout(_LAST):
                    await page.goto(drawing.order.url, timeout=0)  # an empty page now, see `_answer`
                    await page.context.clear_cookies()
                    storage = {"origin": self._origin, "storageTypes": "all"}
                    await self._tools.send("Storage.clearDataForOrigin", storage)
                return
        context, self._context, self._page = self._context, None, None
        if context is not None:
            with suppress(PlaywrightError, TimeoutError):  # it ends with the browser
                async with asyncio.timeout(_LAST):
                    await context.close()

    async def _answer(self, route: "Route", request: "Request") -> None:
        """Answer a request of the browser, or refuse it."""
        from playwright.async_api import Error as PlaywrightError

        with suppress(PlaywrightError):  # the page is gone
            if self._drawing is not None and request.url.startswith(("http://", "https://")):
                await self._drawing.answer(route, request)
            elif self._drawing is None and request.resource_type == "document":
                # an empty page of the same site, for which the browser needs no other process
                await route.fulfill(content_type="text/html", body="")
            else:
                await route.abort()


class _Drawing:
    """A document while it is drawn in a page of Chromium."""

    def __init__(self, order: Order, page: "Page", loaders: ThreadPoolExecutor) -> None:
        self.order, self._page, self._loaders = order, page, loaders
        self._end = asyncio.timeout(order.seconds)
        self._moves: list[str] = []  # addresses that its scripts lead to
        self._is_open = False
        self._requests = self._pending = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._failure: PilotlightError | None = None  # which ends the crawl

    async def draw(self) -> Drawn:
        """Draw the document; when its time is up, it is taken as it is, and called late.

        Raises:
            Unavailable: its scripts never end, or make too much of it.
            PilotlightError: an error of `load`.
            playwright.async_api.Error: anything else.
        """
        order, is_late = self.order, False
        try:
            async with self._end:
                await self._page.goto(order.url, wait_until="commit", timeout=0)
                seen = -1
                while seen != self._requests or self._pending:
                    seen = self._requests
                    await self._idle.wait()
                    await self._page.evaluate(_WAIT, [_QUIET, _RESTLESS])
        except TimeoutError:
            is_late = True
        if self._failure is not None:
            raise self._failure
        try:
            async with asyncio.timeout(_LAST):
                html = await self._page.evaluate(_TAKE, [order.max_length, order.url])
        except TimeoutError:
            raise Unavailable("it cannot be drawn: its scripts never end") from None
        if html is None:
            raise Unavailable(f"it cannot be drawn: its scripts made more than {order.max_length:,} characters of it")
        return Drawn(str(html).encode("utf-8", "replace"), tuple(self._moves), is_late)

    async def answer(self, route: "Route", request: "Request") -> None:
        """Answer a request of the browser, or refuse it. Raises an error of Playwright: the page is gone."""
        kind, is_get = request.resource_type, request.method == "GET"
        if kind == "document" and request.frame == self._page.main_frame:
            if not self._is_open:
                self._is_open = True
                await route.fulfill(status=200, content_type=self.order.content_type, body=self.order.body)
            else:  # a script leads elsewhere, which the crawler may follow
                if is_get and len(self._moves) < _MAX_MOVES:
                    self._moves.append(request.url)
                await route.abort("aborted")  # leaves the document as it is
        elif kind == "stylesheet":
            await route.fulfill(status=200, content_type="text/css", body="")  # scripts may wait until it is loaded
        elif kind in _LOADED and is_get and self._requests < MAX_REQUESTS:
            await self._load(route, request)
        else:
            await route.abort()

    async def _load(self, route: "Route", request: "Request") -> None:
        """Answer a request with what the crawler fetches for it."""
        self._requests += 1
        self._pending += 1
        self._idle.clear()
        if self.order.delay and (until := self._end.when()) is not None:
            self._end.reschedule(until + self.order.delay)  # the crawler waits before each request
        arguments = request.url, request.resource_type == "script", request.headers
        try:
            loop = asyncio.get_running_loop()
            resource = await loop.run_in_executor(self._loaders, self.order.load, *arguments)
            if resource is None:
                await route.abort()
            else:
                headers = {**resource.headers, "content-type": resource.content_type}
                await route.fulfill(status=resource.status, headers=headers, body=resource.body)
        except PilotlightError as error:
            self._failure = error
            self._end.reschedule(0)  # ends the drawing at once
        finally:
            self._pending -= 1
            if not self._pending:
                self._idle.set()
