"""Runs builds that kill themselves: `killer.py SOURCE KEEP INDEX:N...` forks one build for each INDEX, which dies at
its N-th step. A step is an open, a rename, a removal, a new folder, a database connection or an fsync, anywhere.

Prints one JSON object: for each index the signal that ended its build (0 if it lived), and the steps it took.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from indexer.build import build
from indexer.config import BuildConfig
from indexer.progress import Progress
from tests.dummy import DummyEmbedder

EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "sqlite3.connect", "shutil.rmtree"}


def build_and_die(source: str, keep: int, index: Path, fatal_step: int) -> int:
    """Build in this process; returns the number of steps if it lives."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in EVENTS:
            step()

    real_fsync = os.fsync

    def fsync(handle: int) -> None:
        step()
        real_fsync(handle)
        step()

    os.fsync = fsync
    sys.addaudithook(audit)
    build([source], index, DummyEmbedder(), BuildConfig(keep_generations=keep), progress=Progress(sys.stderr, "quiet"))
    return steps


def main(source: str, keep: int, jobs: list[str]) -> None:
    results = {}
    for job in jobs:
        index, _, fatal_step = job.rpartition(":")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            steps = build_and_die(source, keep, Path(index), int(fatal_step))
            os.write(write_end, str(steps).encode())
            os._exit(0)
        os.close(write_end)
        _, status = os.waitpid(child, 0)
        told = os.read(read_end, 20)
        os.close(read_end)
        results[index] = {"signal": os.waitstatus_to_exitcode(status), "steps": int(told or 0)}
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
