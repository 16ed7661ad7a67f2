"""The program of a reader process: it reads documents until nobody asks any more. Never imported by the build."""

import email
import encodings
import gc
import os
import pkgutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import import_module
from typing import Any

from docutils.parsers.rst import directives
from lxml import etree

from indexer import decoding, notes
from indexer.errors import FetchError, ParseError
from indexer.read.access_list import ACCESS, NOBODY, begins_with_joined_list, begins_with_list
from indexer.read.confinement import confine, hide
from indexer.read.extraction import detect_language, to_json
from indexer.read.formats import ATTACHMENTS, CONTAINER, FUNCTIONS, LISTING, PAGE, SCANS, TEXT_READERS
from indexer.read.reader_process import pack_message, read_message
from indexer.records import Extraction

_LONGEST_REQUEST = 1 << 31  # bytes of a document; the limits of the build are stricter
_GRACE = 5.0  # seconds; the build itself ends what takes too long, unless it has been killed
_LOOKED_AT = 32_000  # bytes of a document that may begin with an access list
_READ_ACCESS = ("markdown", "mdx", "notebook", "json_text")  # readers that read access lists themselves
_PROSE = ("word", "slides", "pdf", "epub", "mail")
_readers: dict[str, Callable[..., Any]] = {}
_missing: dict[str, str] = {}  # readers that cannot be loaded, and why


def main() -> None:
    """Say what holds this process, then answer requests on standard input until it ends."""
    hide()
    preload()
    gc.freeze()
    gc.set_threshold(100_000)  # a page is a hundred thousand objects without a cycle: looking for one costs a sixth
    # what a library prints must not be taken for an answer
    with os.fdopen(os.dup(1), "wb") as answers, open(os.devnull, "wb") as nowhere, os.fdopen(0, "rb") as asks:
        os.dup2(nowhere.fileno(), 1)
        start = read_message(asks.read, _LONGEST_REQUEST)
        if start is None:
            return
        if engine := start[0]["engine"]:
            load_ocr(engine)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as first_to_go:
            first_to_go.write("1000")  # the build can go on without it
        answers.write(pack_message({"confinement": confine(start[0]["memory"])}))
        answers.flush()
        while (message := read_message(asks.read, _LONGEST_REQUEST)) is not None:
            request, body = message
            seconds = request["seconds"] + _GRACE  # of CPU time for each part; the signal ends the process
            signal.setitimer(signal.ITIMER_PROF, seconds)
            for fields, data in answer(request["reader"], request["argument"], body):
                answers.write(pack_message(fields, data))
                answers.flush()
                signal.setitimer(signal.ITIMER_PROF, seconds)
            if "error" in fields:
                gc.collect()  # an exception may hold a document of a hundred megabytes in a cycle
        os._exit(0)  # without what may not be done any more


def preload() -> None:
    """Load all that any reader may use: afterwards no file can be opened."""
    detect_language("The model of languages writes files, and sets memory aside when it is first used. " * 50)
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
                yield to_json(_closed(content, argument["reader"], body)) | {"done": True}, b""
                return
        elif reader in (LISTING, SCANS):
            last = read(body, argument)
        else:
            last = to_json(_closed(read(body, argument), reader, body))
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a library trips over, panics of Rust among it
        yield {"error": _reason(error)}, b""
    else:
        yield last | {"done": True}, b""


def _closed(content: Extraction, reader: str, body: bytes) -> Extraction:
    """Return a document; one for nobody if its format has no access list and it begins with what looks like one."""
    if reader in _READ_ACCESS:
        return content
    text = body[:_LOOKED_AT].replace(b"\0", b"").decode("latin-1").lstrip("\xef\xbb\xbf\xff\xfe")
    is_stated = ACCESS in content.declared.metadata or (reader in TEXT_READERS and begins_with_list(text))
    if reader in _PROSE:  # where many a paragraph begins with "Access:"
        is_stated = is_stated or any(begins_with_joined_list(section.text) for section in content.sections[:3])
    return replace(content, declared=replace(content.declared, access=NOBODY)) if is_stated else content


def _reason(error: BaseException) -> str:
    """Return why a document cannot be read."""
    cause: BaseException | None = error
    seen: list[BaseException] = []  # an error may be its own cause
    while cause is not None and cause not in seen:
        # the parser of XML reports as a fault of the document that it ran out of memory
        is_xml = isinstance(cause, etree.XMLSyntaxError) and cause.code == etree.ErrorTypes.ERR_NO_MEMORY
        if is_xml or isinstance(cause, MemoryError):
            return "reading it takes more memory than is allowed"
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ParseError | FetchError):  # the latter of a packed file
        return str(error)
    if isinstance(error, RecursionError):
        return "elements nested too deep"
    return f"damaged, or not what it says it is ({type(error).__name__})"
