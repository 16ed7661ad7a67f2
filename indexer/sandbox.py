"""The process in which documents are read, so that a hostile one costs itself and never the build.

It is started when it is first needed and kept. It may use only so much memory, cannot write files, and is killed when
an answer takes too long; the next document gets a new one. What it says is JSON, see `indexer.content`.

HTML, Markdown and plain text are read in the build's own process: their readers keep no state, have no input on which
they take long, and hold no memory beyond a multiple of the page; sending them elsewhere would cost and gain nothing.
"""

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import IO, Any

from indexer.errors import ParseError
from indexer.frames import BrokenFrame, read_frame, write_frame

_SECONDS = 60.0  # for one document, or one member of an archive
_MEMORY = 1 << 30  # bytes of address space
_LONGEST_BODY = 1 << 30  # bytes of a member; the limits of the build are stricter
_LIFE = 1_000  # documents read before it is replaced, so that what libraries leak does not add up
_START = "import sys; sys.path[:] = sys.argv[1:]; from indexer.worker import main; main()"
_free: list["Sandbox"] = []


class Sandbox:
    """One such process; used by one thread at a time."""

    def __init__(self, seconds: float = _SECONDS, memory: int = _MEMORY) -> None:
        self._seconds = seconds
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def ask(self, reader: str, charset: str | None, body: bytes) -> Generator[tuple[dict[str, Any], bytes], None, None]:
        """Have a document read: gives the reader's answers, each with bytes that belong to it.

        Args:
            reader: module that reads it, see `indexer.formats`.
            charset: what a server said of a text, or the longest member that an archive may have.
            body: the document.

        Raises:
            ParseError: it cannot be read, or reading it took too long or too much memory.
        """
        done = False
        if self._asked >= _LIFE or (self._process is not None and self._process.poll() is not None):
            self.close()
        self._asked += 1
        try:
            process = self._process = self._process or self._start()
            request = {"reader": reader, "charset": charset, "seconds": self._seconds}
            while not done:
                answer = self._exchange(process, request, body)
                request, body = {}, b""
                done = "done" in answer[0] or "error" in answer[0]
                if "error" in answer[0]:
                    raise ParseError(str(answer[0]["error"])[:200])
                if not done:
                    yield answer
        finally:
            if not done:  # whatever it still has to say would be taken for the next answer
                self.close()

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process, self._asked = self._process, None, 0
        if process is not None:
            process.kill()
            with process:
                pass

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [os.path.abspath(path) for path in sys.path]
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"LANG": "C.UTF-8", "PILOTLIGHT_READER_MEMORY": str(self._memory)},
                start_new_session=True,  # an interrupt from the keyboard is for the build, which then ends this
            )
        except OSError as error:
            raise ParseError(f"no process to read it in can be started: {error.strerror}") from error

    def _exchange(
        self, process: subprocess.Popen[bytes], request: dict[str, Any], body: bytes
    ) -> tuple[dict[str, Any], bytes]:
        """Send the request, if there is one, and receive an answer."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(self._seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            answer = _send_and_receive(process, request, body)
        except BrokenFrame as error:
            raise ParseError(str(error)) from error
        finally:
            timer.cancel()
        if expired.is_set():
            raise ParseError(f"reading it took longer than {self._seconds:g} seconds")
        if answer is not None:
            return answer
        raise ParseError(f"reading it crashed, or took more than {self._memory >> 20:,} MB of memory")


def _send_and_receive(
    process: subprocess.Popen[bytes], request: dict[str, Any], body: bytes
) -> tuple[dict[str, Any], bytes] | None:
    stdin, stdout = _pipes(process)
    try:
        if request:
            write_frame(stdin, request, body)
        return read_frame(stdout, _LONGEST_BODY)
    except OSError:  # it has ended before it took everything
        return None


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are asked for
    return process.stdin, process.stdout


@contextmanager
def borrowed() -> Iterator[Sandbox]:
    """A process to read in, which is given back afterwards; another one for whoever asks meanwhile."""
    try:
        sandbox = _free.pop()
    except IndexError:
        sandbox = Sandbox()
    try:
        yield sandbox
    finally:
        _free.append(sandbox)


@atexit.register
def close_all() -> None:
    """End the processes that nobody uses; the next document starts a new one."""
    while _free:
        _free.pop().close()
