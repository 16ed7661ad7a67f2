"""The browser of a build: started when the first page is to be drawn, shared by all sites, and replaced now and then.

It runs in a process of its own, see `browser_main`, with neither the environment nor the network of the build.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from itertools import count
from typing import Any

from embedder import cpu
from embedder.errors import PilotlightError
from indexer import memory
from indexer.crawl.answers import Unavailable
from indexer.crawl.render.drawing import MOST_ASKED, Ask, Drawn, Order
from indexer.crawl.render.installation import find_chromium
from indexer.decoding import one_line
from indexer.errors import FetchError, RendererMissing
from indexer.read.fork_server import BrokenMessage, read_message, write_message

_START = "import sys; sys.path[:] = sys.argv[1:]; from indexer.crawl.render.browser_main import main; main()"
_STARTING = 60.0  # seconds until the browser is there, on a busy machine
_GRACE = 10.0  # seconds beyond a document's own, for the browser to say that its time is up
_LIFE = 400  # documents before the browser is replaced, so that what it leaks does not add up
_LONGEST = 1 << 30  # bytes of a message
_LOADERS = 6  # requests of documents that are answered at the same time
_LONGEST_PLACE = 48  # characters of the folder for temporary files: Chromium has sockets below it
_STOPPED = "the crawl is being stopped"


class Browser:
    """Draws documents, a few at a time. May be used by many threads."""

    def __init__(self) -> None:
        self._pages = memory.share(max(2, cpu.detect().cores))
        self._places = threading.BoundedSemaphore(self._pages)
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._is_closed = False

    def draw(self, order: Order, stop: threading.Event) -> Drawn:
        """Draw one document.

        Args:
            order: what to draw.
            stop: ends it when it is set, and `wake` is called.

        A document in whose middle the browser is lost, for whatever reason, is drawn once more.

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

    def _draw(self, order: Order, stop: threading.Event) -> Drawn:
        if stop.is_set() or self._is_closed:
            raise FetchError(_STOPPED)
        return self._current().draw(order, stop)

    def wake(self) -> None:
        """End the waiting of those whose `stop` is set."""
        process = self._process
        if process is not None:
            process.wake()

    def close(self) -> None:
        """Kill the browser, whatever it is doing."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.close()

    def _current(self) -> "_Process":
        with self._lock:
            if self._is_closed:
                raise FetchError(_STOPPED)
            process = self._process
            if process is not None and process.count >= _LIFE:
                process.retire()
                process = None
            if process is not None and process.is_lost:
                process.close()
                process = None
            if process is None:
                process = self._process = _Process(self._pages)
            process.enter()
            return process


class _Lost(Unavailable):
    """The browser ended, or lost the document, by no fault of it that is known."""


class _Process:
    """One process with a browser."""

    def __init__(self, pages: int) -> None:
        """Start it; raises RendererMissing."""
        program = find_chromium()
        self.count = self._inside = 0
        self.is_lost = self._is_retired = False
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._numbers = count()
        self._orders: dict[int, tuple[Order, threading.Event, Future[Drawn]]] = {}
        self._ready: Future[None] = Future()
        place = tempfile.gettempdir()
        short = place if len(place) < _LONGEST_PLACE else "/tmp"  # noqa: S108 - a private folder is made there
        self._folder = tempfile.mkdtemp(prefix="pilotlight-", dir=short)
        self._pool = ThreadPoolExecutor(_LOADERS, thread_name_prefix="load")
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        try:
            self._process = _started(
                [sys.executable, "-I", "-X", "utf8", "-c", _START, *map(os.path.abspath, sys.path)],
                environment | {"HOME": self._folder, "TMPDIR": self._folder, "XDG_RUNTIME_DIR": self._folder},
            )
        except RendererMissing:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            self._send({"program": program, "pages": pages})
            self._ready.result(_STARTING)
        except (RendererMissing, NotInTime, OSError) as error:
            self.close()
            why = str(error) or f"it was not there within {_STARTING:g} s"
            raise RendererMissing(f"Chromium does not start ({why}); repair it, or set render to off") from error

    def enter(self) -> None:
        """Note that a document will be drawn here."""
        with self._lock:
            self.count += 1
            self._inside += 1

    def draw(self, order: Order, stop: threading.Event) -> Drawn:
        """Draw a document; see `Browser.draw`."""
        future: Future[Drawn] = Future()
        with self._lock:
            number = next(self._numbers)
            self._orders[number] = order, stop, future
        fields = {
            "draw": number,
            "url": order.url,
            "type": order.content_type,
            "seconds": order.seconds,
            "delay": order.delay,
            "most": order.most,
        }
        try:
            self._send(fields, order.body)
            return future.result(order.seconds + order.delay * MOST_ASKED + _GRACE)
        except NotInTime:
            self._process.kill()  # it hangs
            raise Unavailable("the browser gave no answer") from None
        except OSError:
            raise _Lost("the browser was lost") from None
        finally:
            with self._lock:
                del self._orders[number]
                self._inside -= 1
                is_last = self._is_retired and not self._inside
            if stop.is_set():
                with suppress(OSError):
                    self._send({"cancel": number})
            if is_last:
                self.close()

    def wake(self) -> None:
        """End the waiting of those whose `stop` is set."""
        with self._lock:
            waiting = [future for _, stop, future in self._orders.values() if stop.is_set()]
        for future in waiting:
            _fail(future, FetchError(_STOPPED))

    def retire(self) -> None:
        """Close it as soon as the last document is drawn."""
        with self._lock:
            self._is_retired, is_last = True, not self._inside
        if is_last:
            self.close()

    def close(self) -> None:
        """Kill it, and wait until it is gone: with its standard input it ends, and all that it has started."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._pool.shutdown(wait=False, cancel_futures=True)  # what they fetch nobody wants any more
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, fields: dict[str, Any], body: bytes = b"") -> None:
        with self._writing:
            assert self._process.stdin is not None  # noqa: S101 - a pipe, as it was asked for
            write_message(self._process.stdin, fields, body)

    def _listen(self) -> None:
        """Take what the process says, until it has ended."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe, as it was asked for
        with suppress(BrokenMessage, OSError), self._process.stdout as answers:
            while (message := read_message(answers, _LONGEST)) is not None:
                try:
                    self._take(*message)
                except (KeyError, TypeError, ValueError, AttributeError):  # it has run what strangers wrote
                    break
        self._process.kill()
        self.is_lost = True
        _fail(self._ready, RendererMissing("it ended at once"))
        with self._lock:
            orphans = [future for *_, future in self._orders.values()]
        for future in orphans:
            _fail(future, _Lost("the browser was lost"))

    def _take(self, fields: dict[str, Any], body: bytes) -> None:
        if "ask" in fields:
            self._pool.submit(self._load, int(fields["ask"]), int(fields["for"]), fields)
        elif "drawn" in fields:
            drawn = Drawn(body, tuple(str(url) for url in fields["moves"]), fields["late"] is True)
            if (order := self._orders.get(fields["drawn"])) is not None and not order[2].done():
                order[2].set_result(drawn)
        elif "failed" in fields:
            if (order := self._orders.get(fields["failed"])) is not None:
                kind = _Lost if fields["lost"] is True else Unavailable
                _fail(order[2], kind(f"it cannot be drawn: {fields['why']}"))
        elif "ready" in fields:
            self._ready.set_result(None)
        else:
            _fail(self._ready, RendererMissing(one_line(str(fields["error"]))))

    def _load(self, number: int, document: int, fields: dict[str, Any]) -> None:
        """Answer a request of a document, or refuse it."""
        found = self._orders.get(document)
        given = None
        try:
            if found is not None:
                headers = {str(name): str(value) for name, value in fields["headers"].items()}
                given = found[0].load(Ask(str(fields["url"]), fields["kind"] == "script", headers))
        except PilotlightError as error:  # of a session, say: it ends the crawl
            _fail(found[2], error) if found else None
        finally:
            answer: dict[str, Any] = {"answer": number}
            if given is not None:
                answer |= {"status": given.status, "type": given.content_type, "headers": dict(given.headers)}
            with suppress(OSError):
                self._send(answer, given.body if given is not None else b"")


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            start_new_session=True,  # an interrupt from the keyboard is for the build, which then ends this
        )
    except OSError as error:
        raise RendererMissing(f"no process to draw pages in can be started: {error.strerror}") from error


def _fail(future: "Future[Any]", error: Exception) -> None:
    with suppress(InvalidStateError):  # it has ended meanwhile
        future.set_exception(error)
