"""Provides the package of a plan: from the cache, or else built by a separate process. Imports no torch.

A build changes the environment, temporary folders and settings of torch, may take any amount of memory, and runs
compilers. A separate process keeps all this from the caller.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from embedder import errors
from embedder.engines import package
from embedder.engines.package import PackageKey
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError, PackageError

_WORDS = "said"  # file of what compilers and libraries print
_LINE = ["-P", "-W", "ignore", "-m", "embedder.engines.build_worker"]  # -P: no module of the current folder


def ensure_package(plan: Plan, key: PackageKey, report: Callable[[str], None] = lambda stage: None) -> Path:
    """Return the folder of a verified package of the plan, building it first if there is none.

    `report` is called with each step of a build as it begins, from the calling thread.
    Raises ModelError, CompilerMissing, CacheError, or PackageError where a package is damaged or cannot be written.
    """
    return package.ensure(plan.config.cache_dir, key, lambda folder: _build(plan, key, folder.absolute(), report))


def is_built(plan: Plan) -> bool:
    """Whether the plan needs no build: its package is in the cache, or its engine has none."""
    key = plan.package_key
    return key is None or package.package_folder(plan.config.cache_dir, key).exists()


def _build(plan: Plan, key: PackageKey, folder: Path, report: Callable[[str], None]) -> None:
    """Have the plan's files written to a folder; its parent folder takes temporary files."""
    scratch = folder.parent
    # The model as it was found and what `auto` came to: nothing is fetched or chosen a second time.
    config = dataclasses.replace(
        plan.config,
        model=str(plan.spec.folder.absolute()),
        revision="",
        engine=plan.engine,
        precision=plan.precision,
        threads=plan.threads,
    )
    asked = {"config": dataclasses.asdict(config), "key": key.as_dict(), "folder": folder}
    with (scratch / _WORDS).open("wb") as words:
        process = subprocess.Popen(
            [sys.executable, *_LINE, json.dumps(asked, default=str)],
            stdin=subprocess.PIPE,  # its end tells the worker that this process has ended
            stdout=subprocess.PIPE,
            stderr=words,
            env=_environment(scratch),
            start_new_session=True,  # an interrupt from the keyboard is for this process, which then ends that one
        )
    with process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is asked for
            for line in process.stdout:
                message = json.loads(line)
                if "error" in message:
                    raise _error_of(message)
                if "done" in message:
                    return
                report(message["step"])
            raise _crash(plan, process.wait(), scratch / _WORDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with its compilers


def _environment(scratch: Path) -> dict[str, str]:
    """Return the worker's environment: the same modules, its own temporary folder, and compilers that speak English."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "TMPDIR": str(scratch),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "LC_ALL": "C",
    }
    environment.pop("PYTHONWARNINGS", None)
    return environment


def _error_of(message: dict[str, Any]) -> Exception:
    """Return the error that a worker reported; details for maintainers are its cause."""
    kind = getattr(errors, message["error"], None)
    if isinstance(kind, type) and issubclass(kind, EmbedderError):
        return kind(message["text"])
    text = message["text"]
    error = OSError(message["errno"], text) if message["error"] == "OSError" else RuntimeError(text)
    error.__cause__ = RuntimeError(message["trace"])
    return error


def _crash(plan: Plan, code: int, words: Path) -> PackageError:
    what = f"the process that compiles {plan.spec.name} ({plan.engine}, {plan.precision})"
    if code == -signal.SIGKILL:
        return PackageError(
            f"{what} was killed, as happens where memory runs out: free some, or copy a package built on a machine of "
            f"the same kind into {plan.config.cache_dir / 'packages'}"
        )
    said = words.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    detail = f", saying {said[-1].strip()[:200]!r}" if said else ""
    end = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    return PackageError(f"{what} {end}{detail}: try again, or choose --engine eager")
