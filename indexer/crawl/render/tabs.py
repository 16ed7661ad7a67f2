"""Pages of the browser, each drawing one document after another; runs in the browser's process.

Nothing is let through to the network: the document is the one that the crawler has fetched, its scripts and data come
from the crawler, and the rest has no part in its text.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Request, Route, async_playwright
from playwright.async_api import Error as PlaywrightError

from indexer.crawl.render.drawing import MOST_ASKED

_FLAGS = [
    # Requests that get past the interception end here: no name resolves, and all is sent to a proxy that is none.
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
_LOADED = frozenset({"script", "xhr", "fetch"})
_MOST_MOVES = 20
_QUIET = 300  # milliseconds without a change after which a document is taken
_RESTLESS = 2_000  # milliseconds after the last answer in which it may go on changing
_LAST = 3.0  # seconds to read a document whose time is up
_STORAGE = 10_000_000  # bytes that a site may store while it is drawn
_LIFE = 50  # documents before a page is replaced
_TELLING = ("FATAL", "No usable sandbox", "error while loading", "not permitted")  # in what Chromium logs
_SIZE = {"width": 1280, "height": 4000}  # what comes into view is drawn by many only then

# Resolves when nothing has changed for so long, or when it is time to take what is there.
_WAIT = """([quiet, restless]) => new Promise(done => {
  let still = 0;
  const end = () => { watch.disconnect(); clearTimeout(still); clearTimeout(last); done(true); };
  const again = () => { clearTimeout(still); still = setTimeout(end, quiet); };
  const watch = new MutationObserver(again), last = setTimeout(end, restless);
  watch.observe(document, {subtree: true, childList: true, characterData: true});
  if (document.readyState === "complete") again(); else addEventListener("load", again);
})"""

# The document as HTML, with what stands in open shadow trees; null where it is too long. Shadow trees are put in place
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


async def launched(program: str, *, sandbox: bool) -> Browser:
    """Return the browser, started; raises an error of Playwright, or ImportError."""
    playwright = await async_playwright().start()
    return await playwright.chromium.launch(
        executable_path=program,
        args=_FLAGS,
        chromium_sandbox=sandbox,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )


def first_line(error: Exception) -> str:
    """Return the line of an error that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    marked = [line for line in lines if any(word in line for word in _TELLING)]
    return (marked or [line for line in lines if line] or [type(error).__name__])[0][:300]


class Tabs:
    """Divides documents among a few pages."""

    def __init__(self, browser: Browser, pages: int, send: Callable[..., None]) -> None:
        self._send = send
        self._idle: asyncio.Queue[_Tab] = asyncio.Queue()
        for _ in range(pages):
            self._idle.put_nowait(_Tab(browser, self._ask))
        self._running: dict[int, asyncio.Task[None]] = {}
        self._asked: dict[int, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self._count = 0

    def take(self, fields: dict[str, Any], body: bytes) -> None:
        """Take a document to draw, the answer to a request, or word that a document is wanted no more."""
        if "draw" in fields:
            task = asyncio.create_task(self._draw(fields, body))
            self._running[fields["draw"]] = task
        elif "cancel" in fields:
            if (running := self._running.get(fields["cancel"])) is not None:
                running.cancel()
        elif (waiting := self._asked.pop(fields["answer"], None)) is not None and not waiting.done():
            waiting.set_result((fields, body))

    async def _draw(self, order: dict[str, Any], body: bytes) -> None:
        tab = await self._idle.get()
        number = order["draw"]
        try:
            drawn = await tab.draw(order, body)
            self._send({"drawn": number, "late": drawn.late, "moves": drawn.moves}, drawn.html)
        except PlaywrightError as error:
            self._send({"failed": number, "why": first_line(error), "lost": True})
        except _TooLong as error:
            self._send({"failed": number, "why": str(error), "lost": False})
        finally:
            del self._running[number]
            await tab.clear()
            self._idle.put_nowait(tab)

    async def _ask(self, document: int, request: Request) -> tuple[dict[str, Any], bytes]:
        self._count += 1
        answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._asked[self._count] = answer
        fields = {"ask": self._count, "for": document, "url": request.url, "kind": request.resource_type}
        self._send(fields | {"headers": request.headers})
        return await answer


class _TooLong(Exception):
    """A document that is longer than one may be."""


class _Drawn:
    """A document while it is drawn."""

    def __init__(self, number: int, url: str, content_type: str, body: bytes, end: asyncio.Timeout, more: float):
        self.number, self.url, self.content_type, self.body = number, url, content_type, body
        self.html, self.late = b"", False
        self.moves: list[str] = []  # where its scripts wanted to go
        self.is_open = False
        self.asked = self.waiting = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self._end, self._more = end, more

    def began(self) -> bool:
        """Note a request; False if there were too many."""
        self.asked += 1
        if self.asked > MOST_ASKED:
            return False
        self.waiting += 1
        self.idle.clear()
        if self._more and (until := self._end.when()) is not None:
            self._end.reschedule(until + self._more)  # the crawler waits before it asks
        return True

    def ended(self) -> None:
        """Note that a request has its answer."""
        self.waiting -= 1
        if not self.waiting:
            self.idle.set()


class _Tab:
    """One page of the browser, with a profile of its own that holds nothing from one document to the next."""

    def __init__(
        self, browser: Browser, ask: Callable[[int, Request], Awaitable[tuple[dict[str, Any], bytes]]]
    ) -> None:
        self._browser = browser
        self._ask = ask
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._tools: CDPSession | None = None
        self._drawn: _Drawn | None = None
        self._count = 0

    async def draw(self, order: dict[str, Any], body: bytes) -> _Drawn:
        """Draw one document; what is there when its time is up is taken, and called late."""
        page = await self._opened()
        end = asyncio.timeout(order["seconds"])
        drawn = self._drawn = _Drawn(order["draw"], order["url"], order["type"], body, end, order["delay"])
        self._count += 1
        try:
            async with end:
                await self._quota(drawn.url)
                await page.goto(drawn.url, wait_until="commit", timeout=0)
                asked = -1
                while asked != drawn.asked or drawn.waiting:
                    asked = drawn.asked
                    await drawn.idle.wait()
                    await page.evaluate(_WAIT, [_QUIET, _RESTLESS])
        except TimeoutError:
            drawn.late = True
        try:
            async with asyncio.timeout(_LAST):
                html = await page.evaluate(_TAKE, [order["most"], drawn.url])
        except TimeoutError:
            self._count = _LIFE  # it hangs
            raise _TooLong("its scripts never end") from None
        if html is None:
            raise _TooLong(f"its scripts made more than {order['most']:,} characters of it")
        drawn.html = str(html).encode("utf-8", "replace")
        return drawn

    async def clear(self) -> None:
        """Leave nothing of the last document, nor any script of it running."""
        drawn, self._drawn = self._drawn, None
        try:
            if self._page is None or drawn is None or self._count >= _LIFE or self._page.is_closed():
                await self._close()
                return
            async with asyncio.timeout(_LAST):
                await self._page.goto(drawn.url, timeout=0)  # there is nothing there any more, see `_answer`
                await self._context.clear_cookies()  # type: ignore[union-attr]  # opened with the page
                where = urlsplit(drawn.url)
                await self._tools.send(  # type: ignore[union-attr]
                    "Storage.clearDataForOrigin",
                    {"origin": f"{where.scheme}://{where.netloc}", "storageTypes": "all"},
                )
        except (PlaywrightError, TimeoutError):
            await self._close()

    async def _opened(self) -> Page:
        if self._page is None:
            context = self._context = await self._browser.new_context(
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
                return  # the browser's own end takes it along

    async def _quota(self, url: str) -> None:
        where = urlsplit(url)
        await self._tools.send(  # type: ignore[union-attr]  # opened with the page
            "Storage.overrideQuotaForOrigin",
            {"origin": f"{where.scheme}://{where.netloc}", "quotaSize": _STORAGE},
        )

    async def _route(self, route: Route, request: Request) -> None:
        """Answer a request of the browser, or refuse it."""
        try:
            await self._answer(route, request)
        except PlaywrightError:
            return  # whoever asked is gone

    async def _answer(self, route: Route, request: Request) -> None:
        drawn, kind = self._drawn, request.resource_type
        if not request.url.startswith(("http://", "https://")):
            await route.abort()
        elif drawn is None:  # an empty page of the same site, for which the browser needs no other process
            await (route.fulfill(content_type="text/html", body="") if kind == "document" else route.abort())
        elif kind == "document":
            await self._open(route, request, drawn)
        elif kind == "stylesheet":
            await route.fulfill(status=200, content_type="text/css", body="")  # scripts may wait until it is loaded
        elif kind in _LOADED and request.method == "GET":
            await self._load(route, request, drawn)
        else:
            await route.abort()

    async def _open(self, route: Route, request: Request, drawn: _Drawn) -> None:
        page = self._page
        if page is None or request.frame != page.main_frame:
            await route.abort()
        elif not drawn.is_open:
            drawn.is_open = True
            await route.fulfill(status=200, content_type=drawn.content_type, body=drawn.body)
        else:  # a script leads elsewhere, which is for the crawler to follow
            if request.method == "GET" and len(drawn.moves) < _MOST_MOVES:
                drawn.moves.append(request.url)
            await route.abort("aborted")  # leaves the document as it is

    async def _load(self, route: Route, request: Request, drawn: _Drawn) -> None:
        if not drawn.began():
            await route.abort()
            return
        try:
            fields, body = await self._ask(drawn.number, request)
            if drawn is not self._drawn or "status" not in fields:
                await route.abort()
            else:
                headers = fields["headers"] | {"content-type": fields["type"]}
                await route.fulfill(status=fields["status"], headers=headers, body=body)
        finally:
            drawn.ended()
