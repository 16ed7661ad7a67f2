"""Writes indexes with faults.c preloaded, one forked child for each job.

A job is a JSON line [action, world, from, index, how, step, kind, error] on stdin. The index is made as a copy of
`from`, unless that is null. How is one of MODES, as in faults.c, or "outside": killed from another process as soon as
it has taken so many steps, wherever it is by then. Prints a JSON line for each job: its index, the signal that ended it
(0 if it lived), its error (empty if there was none), whether commands report that in one line, and its steps, as
[kind, path] pairs.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from embedder.errors import PilotlightError
from indexer.errors import ParseError
from indexer.read.reader_main import answer, preload
from indexer.read.reader_process import ReaderProcess
from tests.faults.world import ACTIONS, World, import_all

MODES = ("count", "kill", "tear", "full", "fail", "short")


def read_here(
    self: ReaderProcess, reader: str, charset: str | None, body: bytes
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Stands in for `ReaderProcess.ask`: a process that only reads, started for each job, would be most of the time."""
    for fields, data in answer(reader, charset, body):
        if "error" in fields:
            raise ParseError(str(fields["error"]))
        if fields.keys() != {"done"}:
            yield fields, data


def run(action: str, world: World, index: Path, how: str, step: int, kind: str, code: int) -> dict[str, Any]:
    is_outside = how == "outside"
    log_read, log_write = os.pipe() if is_outside else (os.memfd_create("log"),) * 2
    error_read, error_write = os.pipe()
    child = os.fork()
    if child == 0:  # this may be its end
        mode = MODES.index("count" if is_outside else how)
        ctypes.CDLL(None).faults_arm(os.fsencode(index), mode, ctypes.c_long(step), log_write, kind.encode(), code)
        try:
            ACTIONS[action](world, index)
        except Exception as error:  # noqa: BLE001 - the test looks at what it is
            is_ours = isinstance(error, PilotlightError | MemoryError)
            os.write(error_write, f"{'' if is_ours else '!'}{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(error_write)
    log: list[bytes] = []
    if is_outside:
        os.close(log_write)
        with open(log_read, "rb", buffering=0) as lines:
            log += islice(lines, step)
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with open(error_read, "rb") as message:
        error = message.read().decode()
    if not is_outside:
        with open(log_read, "rb") as lines:
            lines.seek(0)
            log += lines
    steps = [line.decode().rstrip("\n").split(" ", 1) for line in log]
    ended = {"signal": -os.waitstatus_to_exitcode(status), "error": error.removeprefix("!")}
    return {"index": str(index), **ended, "is_ours": not error.startswith("!"), "steps": steps}


def main() -> None:
    preload()
    import_all()
    ReaderProcess.ask = read_here  # type: ignore[method-assign, assignment]
    for line in sys.stdin:
        action, root, template, index, *job = json.loads(line)
        if template and not Path(index).exists():
            shutil.copytree(template, index)
        print(json.dumps(run(action, World(Path(root)), Path(index), *job)), flush=True)


if __name__ == "__main__":
    main()
