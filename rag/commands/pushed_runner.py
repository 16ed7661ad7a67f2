"""The process that indexes what was pushed: `python -m rag.commands.pushed_runner`, with the settings of the server."""

import logging
import os
import sys
import threading
from contextlib import suppress
from functools import partial

from embedder.errors import PilotlightError
from indexer import memory
from indexer.errors import ParseError
from indexer.read.reader_process import borrowed

NICE = 5  # searches come first, but somebody waits for this


def main() -> int:
    """Index what waits, until nothing more comes; return the exit code."""
    server = os.getppid()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    os.nice(NICE)
    memory.prepare()
    threading.Thread(target=_start_reader, daemon=True).start()
    from rag.commands.embedders import lazy_embedder  # while the reader starts, which takes as long
    from rag.serving.publisher import publisher_of
    from rag.serving.pushed_builder import PushedBuilder
    from rag.settings import load

    try:
        settings = load()
        work = PushedBuilder(settings, partial(lazy_embedder, quiet=True), publisher_of(settings, quiet=True))
        work.keep(lambda: os.getppid() == server)
    except PilotlightError as error:
        logging.getLogger("pilotlight").error("%s", error)
        return 2
    return 0


def _start_reader() -> None:
    with suppress(ParseError), borrowed() as process:  # what is read next says why it cannot be
        process.start()


if __name__ == "__main__":
    sys.exit(main())
