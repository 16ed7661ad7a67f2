"""The process in which a package is built, started by `package`: `python -m embedder.engines.build_worker JSON`.

It reports each step, and the result, as lines of JSON on standard output. Its standard input stays open as long as the
caller lives.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedder.config import EmbedderConfig
from embedder.engines.packing import build_native
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError, PackageError


def main() -> None:
    """Build the package that the argument describes, as JSON."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(asked["folder"])
    # What compilers and libraries print must not be taken for an answer, nor may they read what is not for them.
    alive, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_caller, args=(alive, folder.parent), daemon=True).start()
    with os.fdopen(answers, "w", encoding="utf-8") as file:

        def say(**message: object) -> None:
            print(json.dumps(message), file=file, flush=True)

        try:
            _build(asked, folder, lambda step: say(step=step))
        except EmbedderError as error:
            say(error=type(error).__name__, text=str(error))
        except OSError as error:
            say(error="OSError", errno=error.errno, text=error.strerror or str(error), trace=traceback.format_exc())
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            text = str(error).strip() or type(error).__name__
            say(error="RuntimeError", text=text, trace=traceback.format_exc())
        else:
            say(done=True)


def _build(asked: dict[str, Any], folder: Path, report: Callable[[str], None]) -> None:
    config = asked["config"]
    plan = Plan(EmbedderConfig(**config | {"cache_dir": Path(config["cache_dir"])}), asked["role"])
    if plan.package_key is None or plan.package_key.as_dict() != asked["key"]:
        raise PackageError(f"the model {plan.spec.folder} has just been changed: try again")
    if plan.engine == "native":
        build_native(plan.spec, plan.precision, folder, report)
        return
    report("importing torch")
    from embedder.engines.compilation import build_aot

    build_aot(plan, folder, report)


def _end_with_caller(alive: int, scratch: Path) -> None:
    """Wait until the caller has ended, for any reason; then kill this process and its compilers, and remove files."""
    while os.read(alive, 1):
        pass
    # by a process outside the group that is ended: it is the last to go
    line = ["sh", "-c", 'kill -9 "-$1"; rm -rf -- "$2"', "sh", str(os.getpgrp()), str(scratch)]
    try:
        subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:  # what is left goes with the next build
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
