"""The browser of a build: started when the first page is to be drawn, and shared by all sites.

Nothing is let through to the network: the document is the one that the crawler has fetched, its scripts and data come
from the crawler, and no other resource is part of its text. Playwright drives it, whose event loop runs in a thread.
When the build ends, however it does, Playwright's driver loses its standard input, and ends the browser and itself.
"""

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from embedder import cpu
from embedder.errors import PilotlightError
from indexer import memory
from indexer.crawl.http_response import PageUnavailable
from indexer.errors import FetchError, RendererMissing
from indexer.text.cleaning import one_line

if TYPE_CHECKING:  # loaded only to draw
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Route

_PACKAGE = "playwright"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_LAUNCHER = Path(__file__).with_name("chromium.sh")  # takes the network away, and bounds the memory
_FLAGS = [
    line for line in Path(__file__).with_name("chromium.flags").read_text("utf-8").splitlines() if line.startswith("-")
]
_LOG_MARKS = ("FATAL", "No usable sandbox", "error while loading", "not permitted")  # of lines in Chromium's log
_MAX_FOLDER = 48  # characters of the folder for temporary files: Chromium has sockets below it
_STARTING = 60.0  # seconds until the browser is there, on a busy machine
_GRACE = 10.0  # seconds beyond a document's own, for the browser to take it as it is; and to end
_LOADERS = 6  # requests of documents that are answered at the same time
_LOOK = 0.2  # seconds after which it is looked at whether a drawing is to end
_LOADED = frozenset({"script", "xhr", "fetch"})  # resource types that the crawler fetches
_MAX_REQUESTS = 200  # of one document
_MAX_MOVES = 20
_QUIET = 300  # milliseconds without a change after which a document is taken
_RESTLESS = 2_000  # milliseconds after the last answer in which it may go on changing
_LAST = 3.0  # seconds to read a document whose time is up, or to close its page
_STORAGE = 10_000_000  # bytes that a site may store while it is drawn
_LIFE = 50  # documents before a page is replaced, so that its leaks do not add up
_SIZE = {"width": 1280, "height": 4000}  # a tall view, as many pages draw only what is in view

# functions that run in a page
_WAIT, _TAKE = (Path(__file__).with_name(name).read_text("utf-8") for name in ("wait.js", "take.js"))


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


def find_chromium() -> str:
    """Return the path of the browser. Raises RendererMissing."""
    found = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        raise RendererMissing("drawing pages needs Chromium: apt-get install chromium, or set render to off")
    return os.path.abspath(found)


def check_installed() -> None:
    """Raise RendererMissing unless pages can be drawn; nothing is loaded or started for it."""
    if find_spec(_PACKAGE) is None:
        raise RendererMissing("drawing pages needs a package: pip install 'pilotlight[render]', or set render to off")
    find_chromium()


def describe() -> dict[str, str | None]:
    """Return what is installed, by name; None for what is not."""
    package = metadata.version(_PACKAGE) if find_spec(_PACKAGE) is not None else None
    program = None
    with suppress(RendererMissing):
        program = find_chromium()
    return {"playwright": package, "chromium": program}


class Browser:
    """Draws documents, a few at a time. Safe to share between threads."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(memory.share(max(2, cpu.detect().cores)))
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._is_closed = False

    def draw(self, order: Order, stop: threading.Event) -> Drawn:
        """Draw one document; `stop`, when set, ends the drawing.

        Raises:
            RendererMissing: the browser cannot be started.
            Unavailable: it was lost, or gave no answer, or the document cannot be drawn.
            FetchError: the crawl ends.
        """
        with self._places:
            lost = None
            with self._lock:
                if self._is_closed or stop.is_set():
                    raise FetchError("the crawl is being stopped")
                running = self._running
                if running is None or running.is_lost:
                    lost, running = running, _Running()
                    self._running = running
                future = asyncio.run_coroutine_threadsafe(running.draw(order), running.loop)
            if lost is not None:
                lost.close()
            end = time.monotonic() + order.seconds + order.delay * _MAX_REQUESTS + _GRACE
            while not wait([future], _LOOK).done:
                if stop.is_set():
                    future.cancel()
                    raise FetchError("the crawl is being stopped")
                if time.monotonic() > end:
                    running.is_lost = True  # it hangs
                    future.cancel()
                    raise PageUnavailable("the browser gave no answer")
            try:
                return future.result()
            except CancelledError:  # it was closed
                raise PageUnavailable("the browser was lost") from None

    def close(self) -> None:
        """End the browser, whatever it is doing."""
        with self._lock:
            self._is_closed = True
            running, self._running = self._running, None
        if running is not None:
            running.close()


class _Running:
    """One browser, and the thread with the event loop that drives it."""

    def __init__(self) -> None:
        """Start the browser; raises RendererMissing."""
        program, self.is_lost = find_chromium(), False
        self._task: asyncio.Task[None] | None = None
        self._idle: list[_Tab] = []
        self.loaders = ThreadPoolExecutor(_LOADERS, thread_name_prefix="load")
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(program),), name="browser", daemon=True)
        self._thread.start()
        try:
            self._started.result(_STARTING)
        except Exception as error:
            self.close()
            why = one_line(_brief(error)) if str(error) else f"it was not there within {_STARTING:g} s"
            raise RendererMissing(f"Chromium does not start ({why}); repair it, or set render to off") from error

    async def _run(self, program: str) -> None:
        """Run Chromium, with neither the environment nor the network of the build, until this is cancelled."""
        self.loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        folder = tempfile.gettempdir()
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment["TMPDIR"] = folder if len(folder) < _MAX_FOLDER else "/tmp"  # noqa: S108 - Chromium makes its own
        environment |= {"HOME": "/nonexistent", "PILOTLIGHT_CHROMIUM": program}
        try:
            from playwright.async_api import Error, async_playwright  # takes long to load

            self.error: type[Exception] = Error
            async with async_playwright() as playwright:
                self.chromium = await playwright.chromium.launch(
                    executable_path=_LAUNCHER,
                    args=_FLAGS,
                    env={**environment},
                    chromium_sandbox=os.geteuid() != 0,
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                self.chromium.on("disconnected", lambda _: setattr(self, "is_lost", True))
                self._started.set_result(None)
                try:
                    await asyncio.Event().wait()
                finally:
                    with suppress(Exception):
                        async with asyncio.timeout(_GRACE):
                            await self.chromium.close()
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - told to the thread that waits for it
            if not self._started.done():
                self._started.set_exception(error)

    async def draw(self, order: Order) -> Drawn:
        """Draw a document in an idle page; see `_Tab`."""
        tab = self._idle.pop() if self._idle else _Tab(self)
        try:
            return await tab.draw(order)
        except self.error as error:
            lost = self.is_lost or not self.chromium.is_connected()
            raise PageUnavailable("the browser was lost" if lost else f"it cannot be drawn: {_brief(error)}") from error
        finally:
            await tab.clear()
            self._idle.append(tab)

    def close(self) -> None:
        """End the browser, and wait until it is gone."""
        if self._task is not None:
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(3 * _GRACE)
        self.loaders.shutdown(wait=False, cancel_futures=True)  # nobody needs what they fetch any more


class _Tab:
    """One page of Chromium, which draws one document after another and keeps nothing of them."""

    def __init__(self, running: _Running) -> None:
        self._running = running
        self._context: BrowserContext | None = None
        self._order: Order | None = None
        self._left = 0  # documents before the page is replaced

    async def draw(self, order: Order) -> Drawn:
        """Draw a document. Raises Unavailable, an error of `load`, or playwright's own."""
        if self._context is None:
            self._context = context = await self._running.chromium.new_context(
                service_workers="block", accept_downloads=False, viewport=_SIZE, timezone_id="UTC"
            )
            await context.route("**/*", self._answer)
            self._page: Page = await context.new_page()
            context.on("page", lambda other: asyncio.ensure_future(other.close()))
            self._left = _LIFE
            await self._page.add_init_script("try { sessionStorage.clear() } catch {}")
            self._tools: CDPSession = await context.new_cdp_session(self._page)
        self._order, self._is_open = order, False
        self._failure: PilotlightError | None = None  # which ends the crawl
        self._requests, self._pending, self._moves = 0, 0, list[str]()
        self._idle, self._end = asyncio.Event(), asyncio.timeout(order.seconds)
        self._idle.set()
        parts, is_late = urlsplit(order.url), False
        self._origin = f"{parts.scheme}://{parts.netloc}"
        await self._tools.send("Storage.overrideQuotaForOrigin", {"origin": self._origin, "quotaSize": _STORAGE})
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
            raise PageUnavailable("it cannot be drawn: its scripts never end") from None
        if html is None:
            raise PageUnavailable(
                f"it cannot be drawn: its scripts made more than {order.max_length:,} characters of it"
            )
        return Drawn(str(html).encode("utf-8", "replace"), tuple(self._moves), is_late)

    async def clear(self) -> None:
        """Remove all of the last document, with its scripts; where that fails, the page is closed."""
        order, self._order = self._order, None
        self._left -= 1
        with suppress(self._running.error, TimeoutError):  # it is closed, or hangs
            if order is not None and self._context is not None and self._left > 0:
                async with asyncio.timeout(_LAST):
                    await self._page.goto(order.url, timeout=0)  # an empty page now, see `_answer`
                    await self._context.clear_cookies()
                    storage = {"origin": self._origin, "storageTypes": "all"}
                    await self._tools.send("Storage.clearDataForOrigin", storage)
                return
        context, self._context = self._context, None
        if context is not None:
            with suppress(self._running.error, TimeoutError):  # it ends with the browser
                async with asyncio.timeout(_LAST):
                    await context.close()

    async def _answer(self, route: "Route", request: "Request") -> None:
        """Answer a request of the browser, or refuse it."""
        kind, is_get, order = request.resource_type, request.method == "GET", self._order
        with suppress(self._running.error):  # the page is gone
            if not request.url.startswith(("http://", "https://")):
                await route.abort()
            elif order is None and kind == "document":  # an empty page of the site, which needs no other process
                await route.fulfill(content_type="text/html", body="")
            elif order is None:
                await route.abort()
            elif kind == "document" and request.frame == self._page.main_frame and not self._is_open:
                self._is_open = True
                await route.fulfill(status=200, content_type=order.content_type, body=order.body)
            elif kind == "document" and request.frame == self._page.main_frame:
                if is_get and len(self._moves) < _MAX_MOVES:  # a script leads elsewhere, which the crawler may follow
                    self._moves.append(request.url)
                await route.abort("aborted")  # leaves the document as it is
            elif kind == "stylesheet":
                await route.fulfill(status=200, content_type="text/css", body="")  # scripts may wait until it is loaded
            elif kind in _LOADED and is_get and self._requests < _MAX_REQUESTS:
                await self._load(order, route, request)
            else:
                await route.abort()

    async def _load(self, order: Order, route: "Route", request: "Request") -> None:
        """Answer a request with what the crawler fetches for it."""
        self._requests += 1
        self._pending += 1
        self._idle.clear()
        if order.delay and (until := self._end.when()) is not None:
            self._end.reschedule(until + order.delay)  # the crawler waits before each request
        arguments = request.url, request.resource_type == "script", request.headers
        try:
            resource = await self._running.loop.run_in_executor(self._running.loaders, order.load, *arguments)
            if resource is None:
                await route.abort()
            else:
                headers = {**resource.headers, "content-type": resource.content_type}
                await route.fulfill(status=resource.status, headers=headers, body=resource.body)
        except PilotlightError as error:
            if order is self._order:
                self._failure = error
                self._end.reschedule(0)  # ends the drawing at once
        finally:
            if order is self._order:
                self._pending -= 1
                if not self._pending:
                    self._idle.set()


def _brief(error: Exception) -> str:
    """Return the line of an error that says what is wrong."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    marked = [line for line in lines if any(word in line for word in _LOG_MARKS)]
    return (marked or lines or [type(error).__name__])[0][:300]
