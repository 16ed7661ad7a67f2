"""The process in which documents are read, so that a hostile one costs itself and never the build.

It is forked when it is first needed, see `fork_server`, and kept. It may use only so much memory, has what
`confinement` leaves it, and is killed when an answer takes too long; the next document gets a new one. What it says is
JSON, see `indexer.read.extraction`.

Everything is read there, HTML and plain text too: that leaves the build's own process to fetching and embedding.
"""

import atexit
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from embedder import cpu
from indexer import memory
from indexer.errors import ParseError
from indexer.read.fork_server import BrokenMessage, Forked, ForkServer, pack_message

_SECONDS = 60.0  # for one document, or one member of an archive
_MEMORY = 480 << 20  # bytes of address space, of which 230 MB are code, tables and the model of languages
_STARTING = 60.0  # seconds until a process has loaded what it needs, on a busy machine
_GRACE = 1.0  # seconds for a process to be gone that has closed its pipes
_OCR_MEMORY = 192 << 20  # bytes of address space more, for the engine and a page
_LIFE = 5_000  # documents read before it is replaced, so that what libraries leak does not add up
_MOST = 4  # processes that read at the same time, beside those of archives
MOST_SPARE = _MOST - 1  # processes that help others with scans
_free: list["ReaderProcess"] = []
_server = ForkServer()
Lend = Callable[[], AbstractContextManager["ReaderProcess"]]
_places = threading.BoundedSemaphore(memory.readers(max(2, min(_MOST, cpu.detect().cores))))
_spare = threading.BoundedSemaphore(memory.readers(min(_MOST, cpu.detect().cores)) - 1)


class ReaderProcess:
    """One such process; used by one thread at a time."""

    def __init__(self, seconds: float = _SECONDS, memory: int = _MEMORY, server: ForkServer = _server) -> None:
        self._seconds = seconds
        self._memory = memory
        self._server = server
        self._process: Forked | None = None
        self._asked = 0
        self._engine = ""
        self._is_interrupted = False
        self.confinement: dict[str, str] = {}  # what holds the process, by name; empty where the system has none of it

    def ask(self, reader: str, argument: Any, body: bytes) -> Generator[tuple[dict[str, Any], bytes], None, None]:
        """Have a document read: gives the reader's answers, each with bytes that belong to it.

        Args:
            reader: module that reads it, see `indexer.read.formats`.
            argument: what that needs to know, such as the charset of a text, or the longest member of an archive.
            body: the document.

        Raises:
            ParseError: it cannot be read, or reading it took too long or too much memory.
        """
        done = False
        if self._is_interrupted:
            raise ParseError("interrupted")
        if self._asked >= _LIFE or (self._process is not None and self._process.wait(0) is not None):
            self.close()
        self._asked += 1
        try:
            process = self.start()
            message = pack_message({"reader": reader, "argument": argument, "seconds": self._seconds}, body)
            while not done:
                answer = self._exchange(process, message, self._seconds)
                message = b""
                done = "done" in answer[0] or "error" in answer[0]
                if "error" in answer[0]:
                    raise ParseError(str(answer[0]["error"])[:200])
                if answer[0].keys() != {"done"}:
                    yield answer
        finally:
            if not done:  # whatever it still has to say would be taken for the next answer
                self.close()

    def use(self, engine: str) -> None:
        """Be one that has loaded an engine of OCR, see `indexer.read.ocr.installation`, until it is lent again."""
        if engine != self._engine:
            self.close()
            self._engine = engine

    def interrupt(self) -> None:
        """End what it reads just now, from another thread; until it is lent again, it reads nothing."""
        self._is_interrupted = True
        if (process := self._process) is not None:
            process.kill()

    def resume(self) -> None:
        """Read again, after an interrupt."""
        self._is_interrupted = False

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process, self._asked = self._process, None, 0
        if process is not None:
            process.close()

    def start(self) -> Forked:
        """Have a process, before there is anything to read; raises ParseError."""
        if self._process is None:
            try:
                return self._fork()
            except ParseError:
                if self._server.is_there:
                    raise
            return self._fork()  # what it is forked from was ended meanwhile, as where memory runs out
        return self._process

    def _fork(self) -> Forked:
        memory = self._memory + (_OCR_MEMORY if self._engine else 0)
        try:
            process = self._process = self._server.fork(memory, self._engine)
        except OSError as error:
            raise ParseError(f"no process to read it in can be started: {error.strerror}") from error
        try:
            answer, _ = self._exchange(process, b"", _STARTING)
        except ParseError:
            self.close()
            raise
        process.pid, self.confinement = int(answer["pid"]), dict(answer["confinement"])
        return process

    def _exchange(self, process: Forked, message: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Send the message, if there is one, and receive an answer; raises ParseError."""
        try:
            answer = process.exchange(message, seconds)
        except BrokenMessage as error:
            raise ParseError(str(error)) from error
        except TimeoutError as error:
            raise ParseError(f"reading it took longer than {seconds:g} seconds") from error
        if answer is None:
            ended = process.wait(_GRACE)
            if ended == -signal.SIGSYS:
                raise ParseError("its reader was stopped: it made a forbidden system call")
            verb = "took" if ended == -signal.SIGABRT else "crashed, or took"  # libraries abort where memory runs out
            allowed = self._memory + (_OCR_MEMORY if self._engine else 0)
            raise ParseError(f"reading it {verb} more than {allowed >> 20:,} MB of memory")
        return answer


@contextmanager
def borrowed() -> Iterator[ReaderProcess]:
    """Lend a process at once, beyond the usual number: for callers who hold one and would wait for themselves."""
    try:
        process = _free.pop()
    except IndexError:
        process = ReaderProcess()
    process.resume()
    try:
        yield process
    finally:
        _free.append(process)


class ReaderPool:
    """Lends processes to read in, and can end all that it has lent."""

    def __init__(self) -> None:
        self._lent: set[ReaderProcess] = set()
        self._is_closed = False

    @contextmanager
    def borrowed(self) -> Iterator[ReaderProcess]:
        """Lend a process until the end of the block, as soon as one is free; raises ParseError if closed."""
        with _places, self._lending() as process:
            yield process

    @contextmanager
    def spare(self) -> Iterator[ReaderProcess | None]:
        """Lend a process beyond the usual number where there is a core for it, else None; raises as `borrowed`."""
        if not _spare.acquire(blocking=False):
            yield None
            return
        try:
            with self._lending() as process:
                yield process
        finally:
            _spare.release()

    @contextmanager
    def _lending(self) -> Iterator[ReaderProcess]:
        with borrowed() as process:
            self._lent.add(process)
            try:
                if self._is_closed:
                    raise ParseError("interrupted")
                yield process
            finally:
                self._lent.discard(process)

    def close(self) -> None:
        """End whatever is being read, from another thread."""
        self._is_closed = True
        for process in tuple(self._lent):
            process.interrupt()


@atexit.register
def close_all() -> None:
    """End the processes that nobody uses, and what they were forked from; the next document starts new ones."""
    while _free:
        _free.pop().close()
    _server.close()
