"""The process that reader processes are forked from: it has loaded once what all of them need, and reads no document.

It is told over a Unix socket, see `reader_main`: a message is the memory that a reader may have and the engine of OCR
that it needs, which is loaded here when it is first asked for, with the descriptors of the reader's standard input, its
standard output, and a socket that stands for it. When the build closes its end of that, or ends, the reader is killed;
when the reader has ended, its exit code comes back.
"""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from indexer.read.confinement import hide

REQUEST = struct.Struct("!Q")  # bytes of memory; the name of an engine follows
LONGEST_REQUEST = 8_192  # bytes
EXIT_CODE = struct.Struct("!i")  # as `subprocess` has it: negative for a signal
_LOST = -signal.SIGKILL  # exit code of a reader whose server is gone
_LONGEST_BODY = 1 << 30  # bytes of a member; the limits of the build are stricter
_PIECE = 1 << 20  # bytes taken from a pipe at a time
# One thread: on many cores the memory that numpy sets aside for each would be more than there may be, and a reader may
# not start any, as Tesseract does where it is built with OpenMP.
_START = (
    "import os, sys; os.environ |= dict(OPENBLAS_NUM_THREADS='1', OMP_THREAD_LIMIT='1'); sys.path[:] = sys.argv[1:]; {}"
    "from indexer.read.reader_main import main; main()"
)
_LENGTHS = struct.Struct("!II")  # bytes of the object, bytes after it
_LONGEST_OBJECT = 64_000_000  # bytes


class BrokenMessage(Exception):
    """The bytes are no message, or too long a one."""


def pack_message(fields: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a message between the build and a reader."""
    text = json.dumps(fields).encode()
    return b"".join((_LENGTHS.pack(len(text), len(body)), text, body))


def read_message(read: Callable[[int], bytes], longest_body: int) -> tuple[dict[str, Any], bytes] | None:
    """Receive one message, or None where the other side has ended; `read` returns so many bytes, or fewer at the end.

    Raises BrokenMessage: it is no message, or one too long.
    """
    head = read(_LENGTHS.size)
    if len(head) < _LENGTHS.size:
        return None
    length, after = _LENGTHS.unpack(head)
    if length > _LONGEST_OBJECT or after > longest_body:
        raise BrokenMessage("more text than a document may have")
    text, body = read(length), read(after)
    if len(text) < length or len(body) < after:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenMessage("the reader process returned invalid data") from error
    if not isinstance(fields, dict):
        raise BrokenMessage("the reader process returned invalid data")
    return fields, body


class Forked:
    """A process forked there; used by one thread at a time, but for `kill`. Its first answer says its `pid`."""

    def __init__(self, stdin: int, stdout: int, status: socket.socket) -> None:
        self.pid = 0
        self._stdin, self._stdout, self._status = stdin, stdout, status
        self._exit_code: int | None = None
        os.set_blocking(stdin, False)

    def exchange(self, message: bytes, seconds: float) -> tuple[dict[str, Any], bytes] | None:
        """Send a message, unless it is empty, and return the answer, or None where the process ends meanwhile.

        Raises BrokenMessage, or TimeoutError after so many seconds.
        """
        end, view = time.monotonic() + seconds, memoryview(message)
        try:
            while view:
                if not _is_ready(self._stdin, select.POLLOUT, end - time.monotonic()):
                    raise TimeoutError
                view = view[os.write(self._stdin, view) :]
            return read_message(partial(self._read, end), _LONGEST_BODY)
        except TimeoutError:
            raise
        except OSError:  # it has ended before it took everything
            return None

    def _read(self, end: float, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            if not _is_ready(self._stdout, select.POLLIN, end - time.monotonic()):
                raise TimeoutError
            part = os.read(self._stdout, min(size, _PIECE))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code once it has ended, or None if it runs longer than so many seconds."""
        if self._exit_code is None and _is_ready(self._status.fileno(), select.POLLIN, seconds):
            code = self._status.recv(EXIT_CODE.size)
            self._exit_code = EXIT_CODE.unpack(code)[0] if len(code) == EXIT_CODE.size else _LOST
        return self._exit_code

    def kill(self) -> None:
        """Have it killed; from any thread."""
        with suppress(OSError):  # closed meanwhile
            self._status.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        if self._exit_code is None:
            self.kill()
            self.wait()
        self._status.close()
        os.close(self._stdin)
        os.close(self._stdout)


class ForkServer:
    """Starts that process when the first reader is needed, and again if it is gone. May be used by several threads."""

    def __init__(self, before: str = "") -> None:
        """Run some code `before` anything is loaded there, which tests do."""
        self._start = _START.format(before)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def fork(self, memory: int, engine: str = "") -> Forked:
        """Return a new reader, not ready yet, with so many bytes of memory and an engine of OCR; raises OSError."""
        with self._lock, ExitStack() as theirs, ExitStack() as ours:
            control = self._connected()
            (stdin, to), (from_, stdout), (ended, status) = os.pipe(), os.pipe(), socket.socketpair()
            for handle in (stdin, stdout):
                theirs.callback(os.close, handle)
            theirs.callback(status.close)
            for handle in (to, from_):
                ours.callback(os.close, handle)
            ours.callback(ended.close)
            socket.send_fds(control, [REQUEST.pack(memory) + engine.encode()], [stdin, stdout, status.fileno()])
            ours.pop_all()
            return Forked(to, from_, ended)

    @property
    def is_there(self) -> bool:
        """Return whether the process has been started and is not gone: then it has closed its end of the socket."""
        return self._control is not None and self._owner == os.getpid() and not _is_ready(self._control.fileno(), 0, 0)

    def close(self) -> None:
        """End the process, and with it all that were forked there."""
        with self._lock:
            self._end()

    def _connected(self) -> socket.socket:
        if self._control is not None and self.is_there:
            return self._control
        self._end()
        hide()
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as ours:
            ours.callback(control.close)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", "-c", self._start, *map(os.path.abspath, sys.path)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,  # an interrupt from the keyboard is for the build, which then ends this
            )
            ours.pop_all()
        self._control = control
        return control

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner == os.getpid():  # else it is that of whoever forked this process
            self._process.wait()
        self._process, self._control, self._owner = None, None, os.getpid()


def _is_ready(handle: int, event: int, seconds: float | None) -> bool:
    """Wait until a descriptor is ready or hung up, for at most so many seconds."""
    poll = select.poll()
    poll.register(handle, event)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds * 1_000)))
