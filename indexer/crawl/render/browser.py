"""The browser of a build: started when the first page is to be drawn, and shared by all sites.

It is driven by Playwright, whose event loop runs in a thread. When the build ends, however it does, Playwright's driver
loses its standard input, and ends the browser and itself.
"""

import asyncio
import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from embedder import cpu
from indexer import memory
from indexer.crawl.answers import Unavailable
from indexer.crawl.render.tabs import MAX_REQUESTS, Drawn, Order, Tab
from indexer.decoding import one_line
from indexer.errors import FetchError, RendererMissing

_PACKAGE = "playwright"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_LAUNCHER = Path(__file__).with_name("chromium.sh")  # takes the network away
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
_LOG_MARKS = ("FATAL", "No usable sandbox", "error while loading", "not permitted")  # of lines in Chromium's log
_MAX_FOLDER = 48  # characters of the folder for temporary files: Chromium has sockets below it
_STARTING = 60.0  # seconds until the browser is there, on a busy machine
_GRACE = 10.0  # seconds beyond a document's own, for the browser to take it as it is; and to end
_LOADERS = 6  # requests of documents that are answered at the same time
_LOOK = 0.2  # seconds after which it is looked at whether a drawing is to end
_STOPPED = "the crawl is being stopped"


class _Lost(Unavailable):
    """The browser ended, or lost the document."""


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
        self._places = threading.BoundedSemaphore(memory.share(max(2, cpu.detect().cores)))
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._is_closed = False

    def draw(self, order: Order, stop: threading.Event) -> Drawn:
        """Draw one document, once more if the browser is lost; `stop`, when set, ends the drawing.

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

    def close(self) -> None:
        """End the browser, whatever it is doing."""
        with self._lock:
            self._is_closed = True
            running, self._running = self._running, None
        if running is not None:
            running.close()

    def _draw(self, order: Order, stop: threading.Event) -> Drawn:
        lost = None
        with self._lock:
            if self._is_closed or stop.is_set():
                raise FetchError(_STOPPED)
            running = self._running
            if running is None or running.is_lost:
                lost, running = running, _Running()
                self._running = running
            future = asyncio.run_coroutine_threadsafe(running.draw(order), running.loop)
        if lost is not None:
            lost.close()
        end = time.monotonic() + order.seconds + order.delay * MAX_REQUESTS + _GRACE
        while not wait([future], _LOOK).done:
            if stop.is_set():
                future.cancel()
                raise FetchError(_STOPPED)
            if time.monotonic() > end:
                running.is_lost = True  # it hangs
                future.cancel()
                raise Unavailable("the browser gave no answer")
        try:
            return future.result()
        except CancelledError:  # it was closed
            raise _Lost("the browser was lost") from None


class _Running:
    """One browser, and the event loop that drives it."""

    def __init__(self) -> None:
        """Start the browser; raises RendererMissing."""
        program = find_chromium()
        self.is_lost = False
        self._idle: list[Tab] = []
        self._loaders = ThreadPoolExecutor(_LOADERS, thread_name_prefix="load")
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._start(program), self.loop)
        try:
            starting.result(_STARTING)
        except Exception as error:
            starting.cancel()
            self._stop_loop()
            why = one_line(_brief(error)) if str(error) else f"it was not there within {_STARTING:g} s"
            raise RendererMissing(f"Chromium does not start ({why}); repair it, or set render to off") from error

    async def _start(self, program: str) -> None:
        """Start Chromium, with neither the environment nor the network of the build."""
        from playwright.async_api import async_playwright  # takes long to load

        folder = tempfile.gettempdir()
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment["TMPDIR"] = folder if len(folder) < _MAX_FOLDER else "/tmp"  # noqa: S108 - Chromium makes its own
        environment |= {"HOME": "/nonexistent", "PILOTLIGHT_CHROMIUM": program}
        self._playwright = await async_playwright().start()
        try:
            self._chromium = await self._playwright.chromium.launch(
                executable_path=_LAUNCHER if os.access(_LAUNCHER, os.X_OK) else program,
                args=_FLAGS,
                env={**environment},
                chromium_sandbox=os.geteuid() != 0,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except BaseException:
            await self._playwright.stop()
            raise
        self._chromium.on("disconnected", lambda _: setattr(self, "is_lost", True))

    async def draw(self, order: Order) -> Drawn:
        """Draw a document in an idle page; see `Tab`."""
        from playwright.async_api import Error as PlaywrightError

        tab = self._idle.pop() if self._idle else Tab(self._chromium, self._loaders)
        try:
            return await tab.draw(order)
        except PlaywrightError as error:
            lost = self.is_lost or not self._chromium.is_connected()
            raise _Lost("the browser was lost" if lost else f"it cannot be drawn: {_brief(error)}") from error
        finally:
            await tab.clear()
            self._idle.append(tab)

    def close(self) -> None:
        """End the browser, and wait until it is gone."""
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(3 * _GRACE)
        self._stop_loop()

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
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_GRACE)
        if not self._thread.is_alive():
            self.loop.close()
        self._loaders.shutdown(wait=False, cancel_futures=True)  # nobody needs what they fetch any more


def _brief(error: Exception) -> str:
    """Return the line of an error that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    marked = [line for line in lines if any(word in line for word in _LOG_MARKS)]
    return (marked or [line for line in lines if line] or [type(error).__name__])[0][:300]
