"""Builds with credentials in children that are killed: a JSON job a line on stdin, the exit code of each on stdout.

A job has `config`, `index`, `log` (a file for all that is said, down to every debug message) and `dies`: the step at
which the child kills itself, "embed" or "publish", or "" if others do. It calls itself by its number to the sites.
"""

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from indexer.config import BuildConfig, CrawlLimits
from indexer.pipeline import draft
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.read.reader_main import preload
from indexer.read.reader_process import ReaderProcess
from rag.settings_file import read_settings_file
from tests.dummy import DummyEmbedder
from tests.faults.killer import read_here


def die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def run(job: dict[str, str]) -> int:
    said = os.open(job["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(said, stream.fileno())
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    if job["dies"] == "embed":
        DummyEmbedder.encode = die  # type: ignore[method-assign]
    if job["dies"] == "publish":
        draft.publish = die
    given = read_settings_file(Path(job["config"]))
    limits = CrawlLimits(allow_private=True, timeout=60, concurrency=2, user_agent=f"crasher/{os.getpid()}")
    config = BuildConfig(crawl=limits, credentials=given.credentials)
    progress = Progress(sys.stderr, "shown")
    try:
        sources = [one.source for one in given.sources]
        report = build(sources, Path(job["index"]), DummyEmbedder(), config, progress=progress)
        print(report.table(), json.dumps(report.as_dict()), flush=True)
    except Exception:
        logging.exception("the build has failed")
        return 2
    return 0


def main() -> None:
    preload()
    ReaderProcess.ask = read_here  # type: ignore[method-assign, assignment]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(run(json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
