"""The program of a reader process: it reads documents until nobody asks any more. Never imported by the build."""

import email
import encodings
import gc
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from types import ModuleType
from typing import Any

from docutils.parsers.rst import directives

from indexer.errors import ParseError
from indexer.read import language
from indexer.read.extraction import to_json
from indexer.read.formats import ATTACHMENTS, CONTAINER, LINKS, LISTING, MODULES, PACKED_READERS, TEMPLATE
from indexer.read.gzipped import MAGIC, unpacked
from indexer.read.isolation.confinement import confine
from indexer.read.messages import read_message, write_message

_LONGEST_REQUEST = 1 << 31  # bytes of a document; the limits of the build are stricter
_GRACE = 5.0  # seconds; the build itself ends what takes too long, unless it has been killed
_readers: dict[str, ModuleType] = {}
_missing: dict[str, str] = {}  # readers that cannot be loaded, and why


def main(memory: int) -> None:
    """Say what holds this process, then answer requests on standard input until it ends."""
    preload()
    gc.freeze()
    gc.set_threshold(100_000)  # a page is a hundred thousand objects without a cycle: looking for one costs a sixth
    # what a library prints must not be taken for an answer
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as first_to_go:
            first_to_go.write("1000")  # the build can go on without it
        write_message(answers, {"confinement": confine(memory)})
        while (asked := read_message(sys.stdin.buffer, _LONGEST_REQUEST)) is not None:
            request, body = asked
            signal.setitimer(signal.ITIMER_PROF, request["seconds"] + _GRACE)  # CPU time; the signal ends the process
            for fields, data in answer(request["reader"], request["argument"], body):
                write_message(answers, fields, data)


def preload() -> None:
    """Load all that any reader may use: afterwards no file can be opened."""
    language.load()
    import_module("_strptime")  # which datetime loads when it first reads a date
    for reader, name in MODULES.items():
        try:
            _readers[reader] = import_module(f"indexer.read.{name}")
        except (ImportError, SyntaxError) as error:  # the fault of the installation, not of the document
            _missing[reader] = str(error)
    for _ in answer("restructured", None, b""):  # docutils loads its parts by name, when it first needs them
        pass
    for package in (email, encodings, directives):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # encodings of other systems
                import_module(module.name)


def answer(reader: str, argument: str | None, body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield what a reader finds, as messages; the last one says `done`, or the `error` that ended it."""
    module = _readers.get(reader)
    if module is None:
        yield {"error": f"its reader cannot be loaded ({_missing.get(reader)}); install pilotlight again"}, b""
        return
    try:
        if reader in (CONTAINER, ATTACHMENTS):
            for member in module.members(body, int(argument or 0)):
                fields = asdict(member)
                yield fields, fields.pop("body")
        elif reader in (LINKS, LISTING):
            yield module.find(body, argument) | {"done": True}, b""
            return
        else:
            if reader in PACKED_READERS and body.startswith(MAGIC):
                body = unpacked(body)
            found = module.find(body, argument) if reader == TEMPLATE else to_json(module.read(body, argument))
            yield found | {"done": True}, b""
            return
    except ParseError as error:
        yield {"error": str(error)}, b""
    except MemoryError:
        yield {"error": "reading it takes more memory than is allowed"}, b""
    except RecursionError:
        yield {"error": "elements nested too deep"}, b""
    except Exception as error:  # noqa: BLE001 - whatever a library trips over, the fault lies in the document
        yield {"error": f"damaged, or not what it says it is ({type(error).__name__})"}, b""
    else:
        yield {"done": True}, b""
