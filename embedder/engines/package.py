"""Compiled packages: built once by a separate process, found by their key, verified before they are loaded.

A build changes the environment, temporary folders and settings of torch, may take any amount of memory, and runs
compilers. A separate process keeps all this from the caller. Imports no torch.
"""

import dataclasses
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from embedder import errors
from embedder.cache import check_private, open_private, unusable
from embedder.digest import file_sha256
from embedder.engines.failures import explained
from embedder.engines.library import find_compiler, has_built
from embedder.engines.plan import PackageKey, Plan
from embedder.errors import CompilerMissing, EmbedderError, PackageError

_RECORD = "package.json"
_UNFINISHED = ".building-"
_WORDS = "said"  # file of what compilers and libraries print
_LINE = ["-P", "-W", "ignore", "-m", "embedder.engines.build_worker"]  # -P: no module of the current folder


def ensure_package(plan: Plan, key: PackageKey, report: Callable[[str], None] = lambda stage: None) -> Path:
    """Return the folder of a verified package of the plan, building it first if there is none.

    `report` is called with each step of a build as it begins, from the calling thread.
    Raises ModelError, CompilerMissing, CacheError, or PackageError where a package is damaged or cannot be written.
    """
    return ensure(plan.config.cache_dir, key, lambda folder: _run_worker(plan, key, folder.absolute(), report))


def is_built(plan: Plan) -> bool:
    """Return whether a plan's own model needs no build: its package is in the cache, or its engine has none."""
    key = plan.package_key
    return key is None or package_folder(plan.config.cache_dir, key).exists()


def needs_compiler(key: PackageKey) -> bool:
    """Return whether building a key's package needs a C++ compiler: not where the wheel has the native library."""
    return key.engine != "native" or not has_built()


def package_folder(cache: Path, key: PackageKey) -> Path:
    """Return the folder of a key's package, which need not exist."""
    return cache / "packages" / key.folder_name


def ensure(cache: Path, key: PackageKey, build: Callable[[Path], None]) -> Path:
    """Return the folder of a verified package, building it first if there is none.

    `build` writes the package's files to a folder; it is called only if there is no package. It may leave files beside
    that folder: they are removed.
    Raises CacheError, CompilerMissing, or PackageError where a package is damaged or cannot be built.
    """
    open_private(cache)
    folder = package_folder(cache, key)
    if not folder.exists():
        with _locked(cache / "packages.lock"):
            if not folder.exists():  # another process may have built it while this one waited
                _build(folder, key, build)
    verify(folder, key)
    return folder


def verify(folder: Path, key: PackageKey) -> None:
    """Check ownership, the key, and every hash, because damaged native code would crash the process."""
    again = f"remove {folder} to build it again"
    record_path = folder / _RECORD
    try:
        check_private(folder)
        check_private(record_path)
        record = json.loads(record_path.read_text(encoding="utf-8"))
        files = dict(record["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PackageError(f"the package record {record_path} is damaged ({error}): {again}") from error
    for name, value in key.as_dict().items():
        if record.get(name) != value:
            raise PackageError(
                f"the package {folder} was built for {name} {record.get(name)!r}, not {value!r}: {again}"
            )
    for path in folder.iterdir():
        if path.name not in files and path.name != _RECORD:
            raise PackageError(f"the package file {path} is not in {_RECORD}, so it cannot be trusted: {again}")
    for name, digest in files.items():
        path = folder / Path(name).name
        try:
            check_private(path)
            found = file_sha256(path).hex()
        except OSError as error:
            raise PackageError(f"the package file {path} cannot be read ({error.strerror}): {again}") from error
        if found != digest:
            raise PackageError(f"the package file {path} is damaged (its SHA-256 differs from {_RECORD}): {again}")


def _build(folder: Path, key: PackageKey, build: Callable[[Path], None]) -> None:
    if find_compiler() is None and needs_compiler(key):
        raise CompilerMissing(
            f"compiling {key.model} ({key.engine}, {key.precision}, {key.isa}) needs a C++ compiler and there is none: "
            f"apt-get install g++, copy a package built on a machine of the same kind into {folder.parent}, or choose "
            "the engine eager, which is slower"
        )
    open_private(folder.parent)
    _remove_unfinished(folder.parent)  # of a build that was killed; the lock says that none is running
    try:
        # Intermediate files go beside the package, not into a shared /tmp, and are gone afterwards.
        work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder.parent))
        made = work / "package"
        made.mkdir(mode=0o700)
        build(made)
        record = key.as_dict() | {"files": {path.name: file_sha256(path).hex() for path in sorted(made.iterdir())}}
        (made / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        made.rename(folder)
    except (OSError, RuntimeError, PackageError) as error:
        raise explained(error, f"the package {folder}", "set cache_dir", folder.parent) from error
    finally:
        _remove_unfinished(folder.parent)


def _remove_unfinished(packages: Path) -> None:
    for left in packages.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        file = path.open("a")
    except OSError as error:
        raise unusable(path.parent, error) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by the kernel if the holder dies
        yield


def _run_worker(plan: Plan, key: PackageKey, folder: Path, report: Callable[[str], None]) -> None:
    """Have the plan's files written to a folder; its parent folder takes temporary files."""
    scratch = folder.parent
    asked = request(plan, key, folder)
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


def request(plan: Plan, key: PackageKey, folder: Path) -> dict[str, Any]:
    """Return what a worker is asked to build, for JSON: a config that gives the plan again, and the key."""
    # The model as it was found and what `auto` came to: nothing is fetched or chosen a second time.
    root = str(plan.spec.root.absolute())
    config = dataclasses.replace(
        plan.config,
        model=root,
        revision="",
        engine=plan.engine,
        precision=plan.precision,
        threads=plan.threads,
    )
    return {"config": dataclasses.asdict(config), "key": key.as_dict(), "folder": folder}


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
    return PackageError(f"{what} {end}{detail}: try again, or choose the engine eager")
