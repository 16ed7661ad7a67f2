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
from indexer.read.fork_server import EXIT_CODE, LONGEST_REQUEST, REQUEST, pack_message, read_message
from indexer.read.formats import ATTACHMENTS, CONTAINER, FUNCTIONS, GZIP, LISTING, PACKED_READERS, PAGE, SCANS

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
    control = socket.socket(fileno=0)
    readers: dict[int, tuple[int, socket.socket]] = {}  # by the pipe that ends with it: its number, what stands for it
    while True:
        sockets = {status.fileno(): pipe for pipe, (_, status) in readers.items()}
        ready, _, _ = select.select([control.fileno(), *readers, *sockets], (), ())
        for pipe in {sockets.get(handle, handle) for handle in ready} & readers.keys():
            process, status = readers.pop(pipe)
            os.kill(process, signal.SIGKILL)  # if it has not ended; not yet waited for, so no other has its number
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with status, suppress(OSError):  # nobody may listen any more
                status.send(EXIT_CODE.pack(code))
            os.close(pipe)
        if control.fileno() in ready:
            request, handles, *_ = socket.recv_fds(control, LONGEST_REQUEST, 3)
            if not request:
                return
            process, pipe = _fork(request, *handles[:2])
            readers[pipe] = process, socket.socket(fileno=handles[2])


def _fork(request: bytes, stdin: int, stdout: int) -> tuple[int, int]:
    """Start a reader; return its number, and the end of a pipe whose other end only it has."""
    if engine := request[REQUEST.size :].decode():
        load_ocr(engine)
    ended, running = os.pipe()
    process = os.fork()
    if not process:
        for place, handle in enumerate((stdin, stdout, running)):
            os.dup2(handle, (0, 1, 3)[place])
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        try:
            serve(*REQUEST.unpack(request[: REQUEST.size]))
        finally:
            os._exit(0)  # nothing of what the server has open is closed twice
    for handle in (stdin, stdout, running):
        os.close(handle)
    return process, ended


def serve(memory: int) -> None:
    """Say what holds this process, then answer requests on standard input until it ends."""
    # what a library prints must not be taken for an answer
    with os.fdopen(os.dup(1), "wb") as answers, open(os.devnull, "wb") as nowhere, os.fdopen(0, "rb") as asks:
        os.dup2(nowhere.fileno(), 1)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as first_to_go:
            first_to_go.write("1000")  # the build can go on without it
        answers.write(pack_message({"pid": os.getpid(), "confinement": confine(memory)}))
        answers.flush()
        while (message := read_message(asks.read, _LONGEST_REQUEST)) is not None:
            request, body = message
            seconds = request["seconds"] + _GRACE  # of CPU time for each part; the signal ends the process
            signal.setitimer(signal.ITIMER_PROF, seconds)
            for fields, data in answer(request["reader"], request["argument"], body):
                answers.write(pack_message(fields, data))
                answers.flush()
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
    last: dict[str, Any] = {}
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
            last = read(body, argument)
        else:
            if reader in PACKED_READERS and body.startswith(GZIP):
                body = unpacked(body)
            last = to_json(read(body, argument))
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a library trips over, panics of Rust among it
        yield {"error": _reason(error)}, b""
    else:
        yield last | {"done": True}, b""


def _reason(error: BaseException) -> str:
    """Return why a document cannot be read."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    for cause in causes:
        # the parser of XML reports as a fault of the document that it ran out of memory
        is_xml = isinstance(cause, etree.XMLSyntaxError) and cause.code == etree.ErrorTypes.ERR_NO_MEMORY
        if is_xml or isinstance(cause, MemoryError):
            return "reading it takes more memory than is allowed"
    if isinstance(error, ParseError):
        return str(error)
    if isinstance(error, RecursionError):
        return "elements nested too deep"
    return f"damaged, or not what it says it is ({type(error).__name__})"
