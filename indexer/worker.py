"""The other end of the sandbox: reads documents until nobody asks any more. Never imported by the build."""

import gc
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from typing import Any

from indexer import language
from indexer.content import to_json
from indexer.errors import ParseError
from indexer.formats import ATTACHMENTS, CONTAINER
from indexer.frames import read_frame, write_frame

_LONGEST_REQUEST = 1 << 31  # bytes of a document; the limits of the build are stricter
_GRACE = 5.0  # seconds; the build itself ends what takes too long, unless it has been killed


def main() -> None:
    """Answer requests on standard input until it ends."""
    language.load()
    gc.freeze()
    gc.set_threshold(100_000)  # a page is a hundred thousand objects without a cycle: looking for one costs a sixth
    limit = int(os.environ["PILOTLIGHT_READER_MEMORY"])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # what a library prints must not be taken for an answer
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
        while (asked := read_frame(sys.stdin.buffer, _LONGEST_REQUEST)) is not None:
            request, body = asked
            signal.setitimer(signal.ITIMER_PROF, request["seconds"] + _GRACE)  # CPU time; the signal ends the process
            for fields, data in answer(request["reader"], request["charset"], body):
                write_frame(answers, fields, data)


def answer(reader: str, charset: str | None, body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """What a reader finds, as messages; the last one says `done`, or the `error` that ended it."""
    try:
        module = import_module(f"indexer.{reader}")
    except (ImportError, SyntaxError) as error:  # the fault of the installation, not of the document
        yield {"error": f"its reader cannot be loaded ({error}); install pilotlight again"}, b""
        return
    try:
        if reader in (CONTAINER, ATTACHMENTS):
            for member in module.members(body, int(charset or 0)):
                fields = asdict(member)
                yield fields, fields.pop("body")
        else:
            yield to_json(module.read(body, charset)) | {"done": True}, b""
            return
    except ParseError as error:
        yield {"error": str(error)}, b""
    except MemoryError:
        yield {"error": "reading it takes more memory than a document may"}, b""
    except RecursionError:
        yield {"error": "elements nested too deep"}, b""
    except Exception as error:  # noqa: BLE001 - whatever a library trips over, the fault lies in the document
        yield {"error": f"damaged, or not what it says it is ({type(error).__name__})"}, b""
    else:
        yield {"done": True}, b""
