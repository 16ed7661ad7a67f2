"""The program that a server starts to build its index. The settings are in environment variables.

`python -m rag.commands.jobs FOLDER` runs the job in a folder. Without FOLDER, it indexes waiting pushed documents.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from indexer import memory
from indexer.pipeline.progress import Progress
from indexer.stop_signal import raise_at
from rag.jobs.jobs import CANCEL, END, JOB, write
from rag.settings import load

_NICE_JOB, _NICE_PUSHED = 10, 5

Work = Callable[[dict[str, Any]], dict[str, Any]]


def index_sources(job: dict[str, Any]) -> dict[str, Any]:
    """Run the build of a job with the settings in the environment, and return its report."""
    from rag.commands import indexing

    return indexing.index_sources(indexing.IndexRequest(full=job["full"]), load(), lambda: Progress(sys.stderr))[0]


def run_job(folder: Path, work: Work = index_sources) -> int:
    """Run the job in a folder, write its result into the folder, and return the exit code. `work` does the build."""
    job: dict[str, Any] = json.loads((folder / JOB).read_text(encoding="utf-8"))
    end: dict[str, Any] = {"state": "failed", "report": None, "error": None}
    code = 2
    try:
        with raise_at(signal.SIGINT):  # also works if the server, and so this process, ignores SIGINT
            if (folder / CANCEL).exists():  # SIGINT was sent before `raise_at`
                raise KeyboardInterrupt
            end |= {"report": work(job), "state": "done"}
        code = 0
    except (PilotlightError, MemoryError) as error:
        end["error"] = memory.SHORT if isinstance(error, MemoryError) else str(error)
    except KeyboardInterrupt:
        end["state"], code = "cancelled", 130
    except Exception as error:
        end["error"] = f"internal error {type(error).__name__}; see the job's log"
        raise
    finally:
        write(folder / END, {**end, "ended_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    return code


def index_pushed() -> int:
    """Index pushed documents until no more arrive or the server has ended. Returns the exit code."""
    server = os.getppid()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    from rag.commands.models import lazy_embedder
    from rag.jobs.builds import PushedBuilder
    from rag.stores import publisher_of

    try:
        settings = load()
        work = PushedBuilder(settings, partial(lazy_embedder, quiet=True), publisher_of(settings, quiet=True))
        work.run_until_idle(lambda: os.getppid() == server)
    except PilotlightError as error:
        logging.getLogger("pilotlight").error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    is_job = len(sys.argv) > 1
    os.nice(_NICE_JOB if is_job else _NICE_PUSHED)
    memory.prepare()
    sys.exit(run_job(Path(sys.argv[1])) if is_job else index_pushed())
