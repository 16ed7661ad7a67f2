"""The process of one job: `python -m rag.commands.job_runner FOLDER`, with the settings of the server."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from indexer import memory
from indexer.pipeline.progress import Progress
from rag.clock import timestamp
from rag.serving.job_manager import END, JOB, PROGRESS, write

NICE = 10  # searches come first
_EVERY = 0.5  # seconds between two notes of how far the build is

Work = Callable[[dict[str, Any], Progress], dict[str, Any]]


class NotedProgress(Progress):
    """Writes how far a build is into a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stderr, "shown")
        self._path = path
        self._noted = 0.0

    def note(self) -> None:
        """Write it now."""
        self._noted = time.monotonic()
        write(self._path, self.as_dict())

    def _changed(self) -> None:
        if time.monotonic() - self._noted >= _EVERY:
            self.note()


def run(folder: Path, work: Work) -> int:
    """Do a job, and write down how it ended; return the exit code. `work` gives the report of the build."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who has begun this may have ignored it
    asked = read_job(folder)
    progress = NotedProgress(folder / PROGRESS)
    report: dict[str, Any] | None = None
    error: str | None = None
    try:
        report = work(asked, progress)
        state, code = "done", 0
    except PilotlightError as wrong:
        state, error, code = "failed", str(wrong), 2
    except MemoryError:
        state, error, code = "failed", memory.SHORT, 2
    except KeyboardInterrupt:
        state, code = "cancelled", 130
    except Exception as wrong:
        state, error = "failed", f"internal error {type(wrong).__name__}; see the job's log"
        _end(folder, progress, state, report, error)
        raise
    _end(folder, progress, state, report, error)
    return code


def read_job(folder: Path) -> dict[str, Any]:
    """Return what was asked for."""
    asked: dict[str, Any] = json.loads((folder / JOB).read_text(encoding="utf-8"))
    return asked


def _end(folder: Path, progress: NotedProgress, state: str, report: dict[str, Any] | None, error: str | None) -> None:
    progress.note()
    write(folder / END, {"state": state, "ended_at": timestamp(datetime.now(UTC)), "report": report, "error": error})


def _index(asked: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from rag.commands.build.index import index_sources
    from rag.settings import load

    report, _ = index_sources(
        asked["sources"], load(), add=asked["add"], full=asked["full"], within=asked["within"], progress=progress
    )
    return report


def main() -> int:
    """Do the job whose folder is the argument."""
    os.nice(NICE)
    memory.prepare()
    return run(Path(sys.argv[1]), _index)


if __name__ == "__main__":
    sys.exit(main())
