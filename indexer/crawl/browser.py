"""Render documents in one browser, which all sites share. The browser starts when the first page needs rendering.

The browser has no network access. The crawler provides each document, and fetches the scripts and data that the
document requests. Images and other resources are not loaded. Playwright controls the browser in an event loop, which
runs in a thread. If the build is killed, Playwright's driver process reads end-of-file and closes the browser.
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

from embedder import cpu
from embedder.errors import PilotlightError
from indexer import memory
from indexer.crawl.http_response import PageUnavailable
from indexer.errors import FetchError, RendererMissing
from indexer.network.urls import origin
from indexer.text.cleaning import one_line

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Route

_PACKAGE = "playwright"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_LAUNCHER = Path(__file__).with_name("chromium.sh")  # starts Chromium without network access and with a memory limit
_FLAGS = [
    line for line in Path(__file__).with_name("chromium.flags").read_text("utf-8").splitlines() if line.startswith("-")
]
_ERROR_MARKERS = ("FATAL", "No usable sandbox", "error while loading", "not permitted")
_MAX_TMPDIR_CHARACTERS = 48  # Chromium creates a Unix socket in it, whose path must be short
_START_SECONDS = 60.0
_GRACE_SECONDS = 10.0
_LOADER_THREADS = 6
_POLL_SECONDS = 0.2
_LOADED_TYPES = frozenset({"script", "xhr", "fetch"})
_MAX_REQUESTS_PER_DOCUMENT = 200
_MAX_NAVIGATIONS = 20
_QUIET_MS = 300
_MAX_WAIT_MS = 2_000
_CLOSE_SECONDS = 3.0
_STORAGE_BYTES = 10_000_000
_DOCUMENTS_PER_TAB = 50
_VIEWPORT = {"width": 1280, "height": 4000}  # tall, because many pages render only the visible part

# JavaScript functions that run in a page
_WAIT_SCRIPT, _READ_SCRIPT = (Path(__file__).with_name(name).read_text("utf-8") for name in ("wait.js", "take.js"))


@dataclass(frozen=True, slots=True)
class Resource:
    """The response to a request that a script in a page has made."""

    status: int
    content_type: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenderJob:
    """A document to render. Times are in seconds, and `max_length` is in characters.

    `content_type` includes the charset. The crawler waits for `delay` before each request, and this time does not count
    towards `timeout`. `load` is called from other threads to fetch a resource. Its arguments are the address, whether
    the resource is a script, and the request headers with names in lower case. It returns None to refuse the request.
    """

    url: str
    content_type: str
    body: bytes = field(repr=False)
    timeout: float
    delay: float
    max_length: int
    load: Callable[[str, bool, Mapping[str, str]], Resource | None]


@dataclass(frozen=True, slots=True)
class RenderedDocument:
    """A document in UTF-8 after its scripts have run. `navigations` are addresses that scripts tried to open."""

    html: bytes = field(repr=False)
    navigations: tuple[str, ...]
    timed_out: bool


def find_chromium() -> str:
    """Return the path of Chromium. Raises RendererMissing if it is not installed."""
    program = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        raise RendererMissing("rendering pages needs Chromium: apt-get install chromium, or set render to off")
    return os.path.abspath(program)


def check_installed() -> None:
    """Raise RendererMissing if Playwright or Chromium is not installed. Does not start them."""
    if find_spec(_PACKAGE) is None:
        raise RendererMissing("rendering pages needs a package: pip install 'pilotlight[render]', or set render to off")
    find_chromium()


def installed_versions() -> dict[str, str | None]:
    """Return the version of Playwright and the path of Chromium. Each is None if it is not installed."""
    package = metadata.version(_PACKAGE) if find_spec(_PACKAGE) is not None else None
    program = None
    with suppress(RendererMissing):
        program = find_chromium()
    return {"playwright": package, "chromium": program}


class Browser:
    """Renders several documents at a time. Safe to share between threads."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(memory.share(max(2, cpu.detect().cores)))
        self._lock = threading.Lock()
        self._running: _BrowserProcess | None = None
        self._is_closed = False

    def render(self, job: RenderJob, stop: threading.Event) -> RenderedDocument:
        """Render one document, and wait until it is rendered or `stop` is set.

        Raises:
            RendererMissing: the browser cannot be started.
            PageUnavailable: the browser has ended or did not answer in time, or the document cannot be rendered.
            FetchError: `stop` is set, or the browser is closed.
        """
        with self._slots:
            lost = None
            with self._lock:
                if self._is_closed or stop.is_set():
                    raise FetchError("the crawl is being stopped")
                running = self._running
                if running is None or running.is_lost:
                    lost, running = running, _BrowserProcess()
                    self._running = running
                future = asyncio.run_coroutine_threadsafe(running.render(job), running.loop)
            if lost is not None:
                lost.close()
            end = time.monotonic() + job.timeout + job.delay * _MAX_REQUESTS_PER_DOCUMENT + _GRACE_SECONDS
            while not wait([future], _POLL_SECONDS).done:
                if stop.is_set():
                    future.cancel()
                    raise FetchError("the crawl is being stopped")
                if time.monotonic() > end:
                    running.is_lost = True
                    future.cancel()
                    raise PageUnavailable("the browser did not answer in time")
            try:
                return future.result()
            except CancelledError:
                raise PageUnavailable("the browser ended unexpectedly") from None

    def close(self) -> None:
        """Close the browser. No document can be rendered after this."""
        with self._lock:
            self._is_closed = True
            running, self._running = self._running, None
        if running is not None:
            running.close()


class _BrowserProcess:
    """A running browser process, and the thread with the event loop that controls it."""

    def __init__(self) -> None:
        """Start the browser. Raises RendererMissing if it does not start."""
        program, self.is_lost = find_chromium(), False
        self._task: asyncio.Task[None] | None = None
        self._idle: list[_Tab] = []
        self.loaders = ThreadPoolExecutor(_LOADER_THREADS, thread_name_prefix="load")
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(program),), name="browser", daemon=True)
        self._thread.start()
        try:
            self._started.result(_START_SECONDS)
        except Exception as error:
            self.close()
            reason = one_line(_brief(error)) if str(error) else f"no answer within {_START_SECONDS:g} s"
            raise RendererMissing(f"Chromium does not start ({reason}); repair it, or set render to off") from error

    async def _run(self, program: str) -> None:
        """Run Chromium until the task is cancelled. Chromium gets no network access and few environment variables."""
        self.loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        folder = tempfile.gettempdir()
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment["TMPDIR"] = folder if len(folder) < _MAX_TMPDIR_CHARACTERS else "/tmp"  # noqa: S108 - Chromium creates its own folder in it
        environment |= {"HOME": "/nonexistent", "PILOTLIGHT_CHROMIUM": program}
        try:
            from playwright.async_api import Error, async_playwright

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
                        async with asyncio.timeout(_GRACE_SECONDS):
                            await self.chromium.close()
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - raised again in the thread that starts the browser
            if not self._started.done():
                self._started.set_exception(error)

    async def render(self, job: RenderJob) -> RenderedDocument:
        tab = self._idle.pop() if self._idle else _Tab(self)
        try:
            return await tab.render(job)
        except self.error as error:
            is_lost = self.is_lost or not self.chromium.is_connected()
            reason = "the browser ended unexpectedly" if is_lost else f"it cannot be rendered: {_brief(error)}"
            raise PageUnavailable(reason) from error
        finally:
            await tab.clear()
            self._idle.append(tab)

    def close(self) -> None:
        if self._task is not None:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(3 * _GRACE_SECONDS)
        self.loaders.shutdown(wait=False, cancel_futures=True)


class _Tab:
    def __init__(self, running: _BrowserProcess) -> None:
        self._running = running
        self._context: BrowserContext | None = None
        self._job: RenderJob | None = None
        self._documents_left = 0

    async def render(self, job: RenderJob) -> RenderedDocument:
        """Render a document. Raises PageUnavailable if this fails, and passes on errors of `load` and Playwright."""
        if self._context is None:
            self._context = context = await self._running.chromium.new_context(
                service_workers="block", accept_downloads=False, viewport=_VIEWPORT, timezone_id="UTC"
            )
            await context.route("**/*", self._answer)
            self._page: Page = await context.new_page()
            context.on("page", lambda other: asyncio.ensure_future(other.close()))
            self._documents_left = _DOCUMENTS_PER_TAB
            await self._page.add_init_script("try { sessionStorage.clear() } catch {}")
            self._tools: CDPSession = await context.new_cdp_session(self._page)
        self._job, self._is_open = job, False
        self._failure: PilotlightError | None = None
        self._requests, self._pending, self._navigations = 0, 0, list[str]()
        self._idle, self._end = asyncio.Event(), asyncio.timeout(job.timeout)
        self._idle.set()
        timed_out, self._origin = False, origin(job.url)
        await self._tools.send("Storage.overrideQuotaForOrigin", {"origin": self._origin, "quotaSize": _STORAGE_BYTES})
        try:
            async with self._end:
                await self._page.goto(job.url, wait_until="commit", timeout=0)
                request_count = -1
                while request_count != self._requests or self._pending:
                    request_count = self._requests
                    await self._idle.wait()
                    await self._page.evaluate(_WAIT_SCRIPT, [_QUIET_MS, _MAX_WAIT_MS])
        except TimeoutError:
            timed_out = True
        if self._failure is not None:
            raise self._failure
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                html = await self._page.evaluate(_READ_SCRIPT, [job.max_length, job.url])
        except TimeoutError:
            raise PageUnavailable("it cannot be rendered: its scripts never end") from None
        if html is None:
            raise PageUnavailable(f"it cannot be rendered: it has over {job.max_length:,} characters")
        return RenderedDocument(str(html).encode("utf-8", "replace"), tuple(self._navigations), timed_out)

    async def clear(self) -> None:
        """Remove the last document and its data, or close the tab after `_DOCUMENTS_PER_TAB` documents or an error."""
        job, self._job = self._job, None
        self._documents_left -= 1
        with suppress(self._running.error, TimeoutError):
            if job is not None and self._context is not None and self._documents_left > 0:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._page.goto(job.url, timeout=0)
                    await self._context.clear_cookies()
                    storage = {"origin": self._origin, "storageTypes": "all"}
                    await self._tools.send("Storage.clearDataForOrigin", storage)
                return
        context, self._context = self._context, None
        if context is not None:
            with suppress(self._running.error, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await context.close()

    async def _answer(self, route: "Route", request: "Request") -> None:
        kind, is_get, job = request.resource_type, request.method == "GET", self._job
        with suppress(self._running.error):
            if not request.url.startswith(("http://", "https://")):
                await route.abort()
            elif job is None and kind == "document":  # `clear` replaces the last document with an empty document
                await route.fulfill(content_type="text/html", body="")
            elif job is None:
                await route.abort()
            elif kind == "document" and request.frame == self._page.main_frame and not self._is_open:
                self._is_open = True
                await route.fulfill(status=200, content_type=job.content_type, body=job.body)
            elif kind == "document" and request.frame == self._page.main_frame:
                if is_get and len(self._navigations) < _MAX_NAVIGATIONS:
                    self._navigations.append(request.url)
                await route.abort("aborted")
            elif kind == "stylesheet":
                await route.fulfill(status=200, content_type="text/css", body="")  # scripts may wait for style sheets
            elif kind in _LOADED_TYPES and is_get and self._requests < _MAX_REQUESTS_PER_DOCUMENT:
                await self._load(job, route, request)
            else:
                await route.abort()

    async def _load(self, job: RenderJob, route: "Route", request: "Request") -> None:
        self._requests += 1
        self._pending += 1
        self._idle.clear()
        if job.delay and (until := self._end.when()) is not None:
            self._end.reschedule(until + job.delay)
        arguments = request.url, request.resource_type == "script", request.headers
        try:
            resource = await self._running.loop.run_in_executor(self._running.loaders, job.load, *arguments)
            if resource is None:
                await route.abort()
            else:
                headers = {**resource.headers, "content-type": resource.content_type}
                await route.fulfill(status=resource.status, headers=headers, body=resource.body)
        except PilotlightError as error:
            if job is self._job:
                self._failure = error
                self._end.reschedule(0)
        finally:
            if job is self._job:
                self._pending -= 1
                if not self._pending:
                    self._idle.set()


def _brief(error: Exception) -> str:
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    marked = [line for line in lines if any(word in line for word in _ERROR_MARKERS)]
    return (marked or lines or [type(error).__name__])[0][:300]
