"""Run the processes that read documents, so that a hostile document cannot harm the build.

A process starts when it is needed, loads all readers (see `reader_main`), and is reused. It has no access to files or
the network, and a memory limit. It is killed if a response takes too long. Responses are JSON (see `extraction`).

All formats, even plain text, are read in these processes, so that the build process only fetches and embeds.
"""

import atexit
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from multiprocessing.connection import Connection, Pipe
from typing import Any

from embedder import cpu
from indexer import memory
from indexer.errors import ParseError

_OCR_MEMORY_BYTES = 192 << 20
_POLL_SECONDS = 0.1
_START_TIMEOUT_SECONDS = 60.0
_EXIT_SECONDS = 1.0
_MAX_DOCUMENTS_PER_PROCESS = 5_000  # a restart frees memory that libraries leak
_MAX_PROCESSES = 4
_MAX_JSON_BYTES = 64_000_000
_MAX_BODY_BYTES = 1 << 30
# One thread per reader: NumPy reserves much memory for each thread, and seccomp forbids Tesseract's OpenMP threads.
_SETUP = (
    "import os, sys; os.environ |= dict(OPENBLAS_NUM_THREADS='1', OMP_THREAD_LIMIT='1'); sys.path[:] = sys.argv[1:]; "
)
_busy = {"seconds": 0.0}
_busy_lock = threading.Lock()
_Request = tuple[dict[str, Any], bytes] | None
Lend = Callable[[], AbstractContextManager["ReaderProcess"]]


def max_readers() -> int:
    """Return how many documents to read in parallel: one per core, at most four, and fewer if memory is short."""
    return memory.readers(min(_MAX_PROCESSES, cpu.detect().cores))


_pool_slots = threading.BoundedSemaphore(memory.readers(max(2, min(_MAX_PROCESSES, cpu.detect().cores))))


def busy_seconds() -> float:
    """Return the sum of the durations of all requests to reader processes, in seconds."""
    return _busy["seconds"]


def send(connection: Connection, fields: dict[str, Any], body: bytes = b"") -> None:
    """Send a message with fields and a body. Both the build and the readers call this function."""
    connection.send_bytes(json.dumps(fields).encode())
    connection.send_bytes(body)


def receive(connection: Connection, max_body_bytes: int = _MAX_BODY_BYTES) -> tuple[dict[str, Any], bytes]:
    """Receive a message. Raises EOFError or OSError if the sender has ended, or ParseError for an invalid message."""
    try:
        fields = json.loads(connection.recv_bytes(_MAX_JSON_BYTES))
        if isinstance(fields, dict):
            return fields, connection.recv_bytes(max_body_bytes)
    except (ValueError, RecursionError) as error:
        raise ParseError("the reader process returned invalid data") from error
    except OSError as error:
        if "length" in str(error):
            raise ParseError(f"more than {_MAX_JSON_BYTES:,} bytes of text") from error
        raise
    raise ParseError("the reader process returned invalid data")


@cache
def _starter(build_pid: int) -> ThreadPoolExecutor:
    """Return an executor that starts a build's reader processes. The kernel kills them when the executor ends."""
    return ThreadPoolExecutor(1, thread_name_prefix="reader")


def _start(program: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a reader process. Return the process, and a connection to its standard input and output."""
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", _SETUP + program, *map(os.path.abspath, sys.path)],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # Ctrl+C then reaches only the build, which ends its readers
        )
    return process, ours


def hide() -> None:
    """Hide the memory and environment of this process from other processes of this user."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


class ReaderProcess:
    """A process that reads documents. Only one thread at a time may call its methods, except `interrupt`."""

    timeout_seconds = 60.0  # per response
    memory_bytes = 480 << 20  # limit of the address space; before the first document, 230 MB are in use
    program = "from indexer.read.reader_main import main; main()"
    _connection: Connection

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._request_count = 0
        self._engine = ""
        self.is_interrupted = False
        self.confinement: dict[str, str] = {}

    def ask(self, reader: str, argument: Any, body: bytes) -> Generator[tuple[dict[str, Any], bytes], None, None]:
        """Read a document in the process. Yield the reader's messages as (fields, body).

        Args:
            reader: a name in `formats.FUNCTIONS`, or `formats.SCANS`.
            argument: a value for the reader that JSON can represent, such as a charset or a size limit.
            body: the content of the document.

        Raises:
            ParseError: the document cannot be read, or takes too much time or memory.
        """
        done = False
        if self.is_interrupted:
            raise ParseError("interrupted")
        has_ended = self._process is not None and self._process.poll() is not None
        if has_ended or self._request_count >= _MAX_DOCUMENTS_PER_PROCESS:
            self.close()
        self._request_count += 1
        try:
            process = self.start()
            request: _Request = {"reader": reader, "argument": argument, "seconds": self.timeout_seconds}, body
            while not done:
                answer = self._exchange(process, request, self.timeout_seconds)
                request = None
                done = "done" in answer[0] or "error" in answer[0]
                if "error" in answer[0]:
                    raise ParseError(str(answer[0]["error"])[:200])
                if answer[0].keys() != {"done"}:
                    yield answer
        finally:
            if not done:  # otherwise, the next request would receive the remaining messages
                self.close()

    def start(self) -> subprocess.Popen[bytes]:
        """Return the process, and start it if necessary. Raises ParseError if it cannot be started."""
        if self._process is not None:
            return self._process
        hide()
        began = time.monotonic()
        try:
            process, self._connection = _starter(os.getpid()).submit(_start, self.program).result()
        except OSError as error:
            raise ParseError(f"a reader process cannot be started: {error.strerror}") from error
        self._process = process
        if self.is_interrupted:  # `interrupt` was called during the start
            process.kill()
        try:
            request = {"memory": self._allowed, "engine": self._engine}, b""
            answer, _ = self._exchange(process, request, _START_TIMEOUT_SECONDS)
        except ParseError:
            self.close()
            raise
        self.confinement = dict(answer["confinement"])
        _idle.start_seconds = time.monotonic() - began
        return process

    def use(self, engine: str) -> None:
        """Set the OCR engine, in the form of `Ocr.engine`. If it changes, the process restarts."""
        if engine != self._engine:
            self.close()
            self._engine = engine

    def interrupt(self) -> None:
        """Stop reading. Any thread may call this. Further requests fail until `borrowed` lends the process again."""
        self.is_interrupted = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Kill the process if it is running."""
        process, self._process, self._request_count = self._process, None, 0
        if process is not None:
            with process, self._connection:
                process.kill()

    @property
    def _allowed(self) -> int:
        return self.memory_bytes + (_OCR_MEMORY_BYTES if self._engine else 0)

    def _exchange(
        self, process: subprocess.Popen[bytes], request: _Request, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request unless it is None. Return the next message. Kill the process if no message arrives in time."""
        began = time.monotonic()
        deadline = threading.Timer(seconds, process.kill)
        deadline.start()
        try:
            if request is not None:
                send(self._connection, *request)
            return receive(self._connection)
        except (OSError, EOFError) as error:
            if time.monotonic() - began >= seconds:
                raise ParseError(f"reading it took longer than {seconds:g} seconds") from error
        finally:
            deadline.cancel()
            with _busy_lock:
                _busy["seconds"] += time.monotonic() - began
        try:
            exit_code = process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            exit_code = 0
        if exit_code == -signal.SIGSYS:
            raise ParseError("its reader was stopped: it made a forbidden system call")
        verb = "took" if exit_code == -signal.SIGABRT else "crashed, or took"  # libraries abort if memory is short
        raise ParseError(f"reading it {verb} more than {self._allowed >> 20:,} MB of memory")


class _IdleProcesses:
    def __init__(self) -> None:
        self.free: list[ReaderProcess] = []
        self.start_seconds = math.inf
        self._waited_seconds = 0.0
        self._lent = 0
        self._changed = threading.Condition()

    def take(self, *, is_patient: bool) -> ReaderProcess:
        """Return an idle process, or start one. If `is_patient`, first wait about as long as a start takes."""
        with self._changed:
            while is_patient and not self.free and self._lent and self._waited_seconds < self.start_seconds:
                began = time.monotonic()
                self._changed.wait(min(_POLL_SECONDS, self.start_seconds - self._waited_seconds))
                if self.start_seconds < math.inf:
                    self._waited_seconds += time.monotonic() - began
            self._lent += 1
            if self.free:
                return self.free.pop()
            self._waited_seconds = 0.0
            return ReaderProcess()

    def give_back(self, process: ReaderProcess) -> None:
        with self._changed:
            self._lent -= 1
            self.free.append(process)
            self._changed.notify()


_idle = _IdleProcesses()


@contextmanager
def borrowed(*, is_patient: bool = False) -> Iterator[ReaderProcess]:
    """Lend a process for the `with` block. Callers must limit the number of processes that they borrow.

    If `is_patient`, wait about a second for an idle process before starting a process.
    """
    process = _idle.take(is_patient=is_patient)
    process.is_interrupted = False
    try:
        yield process
    finally:
        _idle.give_back(process)


class ReaderPool:
    """A pool that lends a limited number of reader processes, and can kill the lent processes."""

    def __init__(self) -> None:
        self._lent: set[ReaderProcess] = set()
        self._is_closed = False

    @contextmanager
    def borrowed(self, *, is_patient: bool = True) -> Iterator[ReaderProcess]:
        """Lend a process for the `with` block. Wait if all are lent. Raises ParseError if the pool is closed."""
        with _pool_slots, borrowed(is_patient=is_patient) as process:
            self._lent.add(process)
            try:
                if self._is_closed:
                    raise ParseError("interrupted")
                yield process
            finally:
                self._lent.discard(process)

    def close(self) -> None:
        """Kill the lent processes, and lend no more. Any thread may call this."""
        self._is_closed = True
        for process in tuple(self._lent):
            process.interrupt()


@atexit.register
def close_all() -> None:
    """Kill the idle processes. The next document starts a new process."""
    while _idle.free:
        _idle.free.pop().close()
