"""The browser of a build: started when the first page is to be drawn, shared by all sites, and replaced now and then.

It is driven by Playwright, whose event loop runs in a thread. When the build ends, however it does, Playwright's driver
loses its standard input, and ends the browser and itself.
"""

import asyncio
import os
import shutil
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec

from embedder import cpu
from indexer import memory
from indexer.crawl.answers import Unavailable
from indexer.crawl.render.resources import MAX_REQUESTS, Drawn, Order
from indexer.decoding import one_line
from indexer.errors import FetchError, RendererMissing

_PACKAGE = "playwright"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_STARTING = 60.0  # seconds until the browser is there, on a busy machine
_GRACE = 10.0  # seconds beyond a document's own, for the browser to take it as it is; and to end
_LIFE = 400  # documents before the browser is replaced, so that its leaks do not add up
_LOADERS = 6  # requests of documents that are answered at the same time
_STOPPED = "the crawl is being stopped"


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
    try:
        program: str | None = find_chromium()
    except RendererMissing:
        program = None
    package = metadata.version(_PACKAGE) if find_spec(_PACKAGE) is not None else None
    sandbox = "none, as root" if os.geteuid() == 0 else "Chromium's own"
    return {"playwright": package, "chromium": program, "sandbox": sandbox if program else None}


class Browser:
    """Draws documents, a few at a time. Safe to share between threads."""

    def __init__(self) -> None:
        self._pages = memory.share(max(2, cpu.detect().cores))
        self._places = threading.BoundedSemaphore(self._pages)
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._waiting: dict[Future[Drawn], threading.Event] = {}
        self._is_closed = False

    def draw(self, order: Order, stop: threading.Event) -> Drawn:
        """Draw one document; it is drawn once more if the browser is lost meanwhile.

        Args:
            order: the document.
            stop: ends the drawing when it is set, and `wake` is called.

        Raises:
            RendererMissing: the browser cannot be started.
            Unavailable: it was lost, or gave no answer, or the document cannot be drawn.
            FetchError: the crawl ends.
        """
        with self._places:
            try:
                return self._draw(order, stop)
            except _Lost:
                return self._draw(order, stop)

    def wake(self) -> None:
        """End the drawings whose `stop` is set."""
        with self._lock:
            stopped = [future for future, stop in self._waiting.items() if stop.is_set() or self._is_closed]
        for future in stopped:
            future.cancel()

    def close(self) -> None:
        """End the browser, whatever it is doing."""
        with self._lock:
            self._is_closed = True
            running, self._running = self._running, None
        self.wake()
        if running is not None:
            running.close()

    def _draw(self, order: Order, stop: threading.Event) -> Drawn:
        with self._lock:
            if self._is_closed or stop.is_set():
                raise FetchError(_STOPPED)
            running, worn = self._running, None
            if running is None or running.is_lost or running.count >= _LIFE:
                worn, running = running, _Running(self._pages)
                self._running = running
            running.count += 1
            running.users += 1
            future = running.submit(order)
            self._waiting[future] = stop
        if worn is not None and not worn.users:
            worn.close()
        try:
            return future.result(order.seconds + order.delay * MAX_REQUESTS + _GRACE)
        except CancelledError:
            raise FetchError(_STOPPED) from None
        except TimeoutError:
            running.is_lost = True  # it hangs
            future.cancel()
            raise Unavailable("the browser gave no answer") from None
        finally:
            with self._lock:
                del self._waiting[future]
                running.users -= 1
                is_worn = running is not self._running and not running.users and not self._is_closed
            if is_worn:
                running.close()


class _Lost(Unavailable):
    """The browser ended, or lost the document."""


class _Running:
    """One browser, and the event loop that drives it."""

    def __init__(self, pages: int) -> None:
        """Start the browser; raises RendererMissing."""
        program = find_chromium()
        self.count = self.users = 0  # documents so far, and those that are drawn
        self.is_lost = False
        self._loaders = ThreadPoolExecutor(_LOADERS, thread_name_prefix="load")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._start(program, pages), self._loop)
        try:
            starting.result(_STARTING)
        except Exception as error:
            starting.cancel()
            self._stop_loop()
            from indexer.crawl.render.tabs import brief

            why = one_line(brief(error)) if str(error) else f"it was not there within {_STARTING:g} s"
            raise RendererMissing(f"Chromium does not start ({why}); repair it, or set render to off") from error

    def submit(self, order: Order) -> Future[Drawn]:
        """Begin to draw a document."""
        return asyncio.run_coroutine_threadsafe(self._draw(order), self._loop)

    def close(self) -> None:
        """End the browser, and wait until it is gone."""
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(3 * _GRACE)
        self._stop_loop()

    async def _start(self, program: str, pages: int) -> None:
        from indexer.crawl.render.tabs import Tab, launch  # Playwright, which takes long to load

        self._playwright, self._chromium = await launch(program)
        self._chromium.on("disconnected", lambda _: self._lose())
        self._idle: asyncio.Queue[Tab] = asyncio.Queue()
        for _ in range(pages):
            self._idle.put_nowait(Tab(self._chromium, self._loaders))

    def _lose(self) -> None:
        self.is_lost = True

    async def _draw(self, order: Order) -> Drawn:
        from playwright.async_api import Error as PlaywrightError

        from indexer.crawl.render.tabs import brief

        tab = await self._idle.get()
        try:
            return await tab.draw(order)
        except PlaywrightError as error:
            lost = self.is_lost or not self._chromium.is_connected()
            raise _Lost("the browser was lost" if lost else f"it cannot be drawn: {brief(error)}") from error
        finally:
            await tab.clear()
            self._idle.put_nowait(tab)

    async def _end(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(_GRACE):
                await self._chromium.close()
        await self._playwright.stop()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE)
        if not self._thread.is_alive():
            self._loop.close()
        self._loaders.shutdown(wait=False, cancel_futures=True)  # nobody needs what they fetch any more
