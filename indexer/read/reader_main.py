"""The program of reader processes, and of the one they are forked from. Never imported by the build.

A reader reads documents until nobody asks any more.
"""

import email
import encodings
import gc
import os
import pkgutil
import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from typing import Any

from docutils.parsers.rst import directives
from lxml import etree

from indexer import decoding, notes
from indexer.errors import ParseError
from indexer.read.confinement import confine, hide
from indexer.read.container import unpacked
from indexer.read.extraction import detect_language, load_language_model, to_json
from indexer.read.fork_server import EXIT_CODE, LONGEST_REQUEST, REQUEST, read_message, write_message
from indexer.read.formats import (
    ATTACHMENTS,
    CONTAINER,
    FUNCTIONS,
    GZIP,
    LISTING,
    PACKED_READERS,
    PAGE,
    SCANS,
)

_LONGEST_REQUEST = 1 << 31  # bytes of a document; the limits of the build are stricter
_GRACE = 5.0  # seconds; the build itself ends what takes too long, unless it has been killed
_readers: dict[str, Callable[..., Any]] = {}
_missing: dict[str, str] = {}  # readers that cannot be loaded, and why


def main() -> None:
    """Fork a reader for each request that comes over standard input, a socket, until the build closes it."""
    hide()
    preload()
    gc.freeze()
    gc.set_threshold(100_000)  # a page is a hundred thousand objects without a cycle: looking for one costs a sixth
    control, (ended, signalled) = socket.socket(fileno=0), socket.socketpair()
    signalled.setblocking(False)
    signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    readers: dict[int, socket.socket] = {}  # by process: what stands for it
    killed: set[int] = set()
    while True:
        waiting = {status.fileno(): reader for reader, status in readers.items() if reader not in killed}
        ready, _, _ = select.select([control.fileno(), ended.fileno(), *waiting], (), ())
        for reader in {waiting[handle] for handle in ready if handle in waiting}:  # which the build has closed
            os.kill(reader, signal.SIGKILL)  # not yet waited for, so no other process has its number
            killed.add(reader)
        if ended.fileno() in ready:
            ended.recv(4096)
            _tell(readers)
            killed &= readers.keys()
        if control.fileno() in ready and not _forked(control, readers):
            return


def _forked(control: socket.socket, readers: dict[int, socket.socket]) -> bool:
    """Fork what is asked for; return whether anybody asks any more."""
    request, handles, *_ = socket.recv_fds(control, LONGEST_REQUEST, 3)
    if not request:
        return False
    stdin, stdout, status = handles
    if engine := request[REQUEST.size :].decode():
        load_ocr(engine)
    process = os.fork()
    if not process:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        try:
            serve(*REQUEST.unpack(request[: REQUEST.size]))
        finally:
            os._exit(0)  # nothing of what the server has open is closed twice
    os.close(stdin)
    os.close(stdout)
    readers[process] = socket.socket(fileno=status)
    return True


def _tell(readers: dict[int, socket.socket]) -> None:
    """Send the exit codes of those that have ended."""
    while readers:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        with readers.pop(process) as told, suppress(OSError):  # nobody may listen any more
            told.send(EXIT_CODE.pack(os.waitstatus_to_exitcode(status)))


def serve(memory: int) -> None:
    """Say what holds this process, then answer requests on standard input until it ends."""
    # what a library prints must not be taken for an answer
    with os.fdopen(os.dup(1), "wb") as answers, open(os.devnull, "wb") as nowhere, os.fdopen(0, "rb") as asks:
        os.dup2(nowhere.fileno(), 1)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as first_to_go:
            first_to_go.write("1000")  # the build can go on without it
        write_message(answers, {"pid": os.getpid(), "confinement": confine(memory)})
        while (asked := read_message(asks, _LONGEST_REQUEST)) is not None:
            request, body = asked
            seconds = request["seconds"] + _GRACE  # of CPU time for each part; the signal ends the process
            signal.setitimer(signal.ITIMER_PROF, seconds)
            for fields, data in answer(request["reader"], request["argument"], body):
                write_message(answers, fields, data)
                signal.setitimer(signal.ITIMER_PROF, seconds)


def preload() -> None:
    """Load all that any reader may use: afterwards no file can be opened."""
    load_language_model()
    import_module("_strptime")  # which datetime loads when it first reads a date
    for reader, place in FUNCTIONS.items():
        module, _, function = place.partition(":")
        try:
            _readers[reader] = getattr(import_module(f"indexer.read.{module}"), function)
        except (ImportError, SyntaxError) as error:  # the fault of the installation, not of the document
            _missing[reader] = str(error)
    decoding.detect_language = detect_language
    decoding.decode(b"caf\xe9", None)  # which loads what guesses encodings
    for _ in answer("restructured", None, b""):  # docutils loads its parts by name, when it first needs them
        pass
    for package in (email, encodings, directives):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # encodings of other systems
                import_module(found.name)


def load_ocr(engine: str) -> None:
    """Load what reads pictures, once for all readers; what goes wrong is told to whoever asks for a page."""
    try:
        scans = import_module("indexer.read.ocr.scans")
        scans.load(engine)
    except (ImportError, SyntaxError, RuntimeError, OSError) as error:  # the fault of the installation
        _missing[SCANS] = str(error)
    else:
        _readers[SCANS] = scans.find


def answer(reader: str, argument: Any, body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield what a reader finds, as messages; the last one says `done`, or the `error` that ended it."""
    read = _readers.get(reader)
    if read is None:
        yield {"error": f"its reader cannot be loaded ({_missing.get(reader)}); install pilotlight again"}, b""
        return
    notes.take()  # of a document before, of which nothing came
    try:
        if reader in (CONTAINER, ATTACHMENTS):
            most, _, no_images = (argument or "0").partition("\n")
            for member in read(body, int(most), no_images):
                fields = asdict(member)
                yield fields, fields.pop("body")
        elif reader == PAGE:
            content = yield from read(body, argument)
            if content is not None:
                yield to_json(content) | {"done": True}, b""
                return
        elif reader in (LISTING, SCANS):
            yield read(body, argument) | {"done": True}, b""
            return
        else:
            if reader in PACKED_READERS and body.startswith(GZIP):
                body = unpacked(body)
            yield to_json(read(body, argument)) | {"done": True}, b""
            return
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a library trips over, panics of Rust among it
        yield {"error": _reason(error)}, b""
    else:
        yield {"done": True}, b""


def _reason(error: BaseException) -> str:
    """Return why a document cannot be read."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    if any(isinstance(cause, MemoryError) or _lacks_memory(cause) for cause in causes):
        return "reading it takes more memory than is allowed"
    if isinstance(error, ParseError):
        return str(error)
    if isinstance(error, RecursionError):
        return "elements nested too deep"
    return f"damaged, or not what it says it is ({type(error).__name__})"


def _lacks_memory(error: BaseException) -> bool:
    """Return whether the parser of XML ran out of memory, which it reports as a fault of the document."""
    return isinstance(error, etree.XMLSyntaxError) and error.code == etree.ErrorTypes.ERR_NO_MEMORY
