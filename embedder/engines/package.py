"""Build, cache and verify packages, which are folders of compiled files that an engine loads.

A package contains native code, so only this user may write to its folder. A package is built in a separate process,
because building changes environment variables and torch's settings, and may need much memory. Does not import torch.
"""

import dataclasses
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from embedder import errors
from embedder.engines.library import LIBRARY, architecture, wheel_library
from embedder.engines.plan import PackageKey, Plan
from embedder.errors import CacheError, PackageError
from embedder.model.files import file_sha256

_RECORD = "package.json"
_UNFINISHED = ".building-"
_OUTPUT_FILE = "output"
_WORKER_ARGUMENTS = ["-P", "-W", "ignore", "-m", "embedder.engines.build_worker"]
MAX_CACHE_BYTES = 8 << 30
MAX_REASON_CHARACTERS = 200
_ERROR = re.compile(r"\berror:", re.IGNORECASE)


def open_private(folder: Path) -> Path:
    """Create a folder if needed and set its mode to 0700. Raises CacheError if another user owns or can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        if stat.S_IMODE(folder.stat().st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise _unusable(folder, error) from error
    return folder


def _unusable(folder: Path, error: OSError) -> CacheError:
    return CacheError(f"the package cache {folder} cannot be used ({error.strerror}): set cache_dir")


def check_private(path: Path) -> None:
    """Raise CacheError if a file or folder is a symbolic link, or if other users own it or can write to it."""
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        raise CacheError(f"{path} is a symbolic link: compiled code is not loaded through links; set cache_dir")
    if info.st_uid != os.geteuid():
        raise CacheError(f"{path} is owned by user {info.st_uid}: compiled code is loaded only from your own files")
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(f"{path} can be written by others (mode {info.st_mode & 0o777:o}): chmod go-w it or remove it")


def ensure_package(plan: Plan, key: PackageKey, report: Callable[[str], None] = lambda stage: None) -> Path:
    """Return the folder of a plan's verified package. A missing package or native library is built first.

    Raises ModelError, CompilerMissing, CacheError, or PackageError if a package is damaged or cannot be written.

    Args:
        key: the plan's `package_key`, which must not be None.
        report: called in this thread with the name of each build step when the step begins.
    """
    # The model's weights are packed before the library is compiled, so that an invalid model fails early.
    folders = [
        ensure(plan.config.cache_dir, one, partial(_run_worker, plan, one, report))
        for one in (key, plan.library_key)
        if one is not None
    ]
    return folders[0]


def is_built(plan: Plan) -> bool:
    """Return whether all compiled files that a plan's engine needs are cached. Does not check `plan.queries`."""
    return all(_is_cached(plan, key) for key in (plan.package_key, plan.library_key))


def needs_compiler(plan: Plan) -> bool:
    """Return whether a C++ compiler must run before a plan's engine can start. Does not check `plan.queries`."""
    if plan.engine == "native":
        return not _is_cached(plan, plan.library_key)
    return plan.engine == "compile" or not _is_cached(plan, plan.package_key)


def library_file(plan: Plan) -> Path:
    """Return the path of the native library that a plan's engine loads, in the wheel or in the package cache."""
    key = plan.library_key
    return package_folder(plan.config.cache_dir, key) / LIBRARY if key else wheel_library(architecture())


def _is_cached(plan: Plan, key: PackageKey | None) -> bool:
    return key is None or package_folder(plan.config.cache_dir, key).exists()


def package_folder(cache: Path, key: PackageKey) -> Path:
    """Return the path of the folder for a key's package. The folder may not exist."""
    return cache / "packages" / key.folder_name


def ensure(cache: Path, key: PackageKey, build: Callable[[Path], None]) -> Path:
    """Return the folder of a verified package. If the package is missing, `build` first writes it to a new folder.

    `build` may write temporary files to the parent of that folder. Raises CacheError, CompilerMissing, or PackageError
    if the package is damaged or cannot be built.
    """
    open_private(cache)
    folder = package_folder(cache, key)
    if not folder.exists():
        try:
            lock = (cache / "packages.lock").open("a")
        except OSError as error:
            raise _unusable(cache, error) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                _build(folder, key, build)
    verify(folder, key)
    with suppress(OSError):
        os.utime(folder)
    return folder


def verify(folder: Path, key: PackageKey) -> None:
    """Check the owner, key and file hashes of a package. Raises PackageError, or CacheError if it is not private."""
    advice = f"remove {folder} to build it again"
    record_path = folder / _RECORD
    try:
        check_private(folder)
        check_private(record_path)
        record = json.loads(record_path.read_text(encoding="utf-8"))
        files = dict(record["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PackageError(f"the package record {record_path} is damaged ({error}): {advice}") from error
    for name, value in dataclasses.asdict(key).items():
        if record.get(name) != value:
            raise PackageError(
                f"the package {folder} was built for {name} {record.get(name)!r}, not {value!r}: {advice}"
            )
    for path in folder.iterdir():
        if path.name not in files and path.name != _RECORD:
            raise PackageError(f"the package file {path} is not in {_RECORD}, so it cannot be trusted: {advice}")
    for name, digest in files.items():
        path = folder / Path(name).name
        try:
            check_private(path)
            actual = file_sha256(path).hex()
        except OSError as error:
            raise PackageError(f"the package file {path} cannot be read ({error.strerror}): {advice}") from error
        if actual != digest:
            raise PackageError(f"the package file {path} is damaged (its SHA-256 differs from {_RECORD}): {advice}")


def _build(folder: Path, key: PackageKey, build: Callable[[Path], None]) -> None:
    open_private(folder.parent)
    _remove_unfinished(folder.parent)
    try:
        # A private folder keeps intermediate files out of the shared /tmp.
        work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder.parent))
        package = work / "package"
        package.mkdir(mode=0o700)
        build(package)
        record = dataclasses.asdict(key) | {
            "files": {path.name: file_sha256(path).hex() for path in sorted(package.iterdir())}
        }
        (package / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        package.rename(folder)
        size = 0
        for package in sorted(folder.parent.glob("[!.]*"), key=lambda path: path.stat().st_mtime, reverse=True):
            size += sum(path.stat().st_size for path in package.iterdir())
            if size > MAX_CACHE_BYTES and package != folder:
                shutil.rmtree(package, ignore_errors=True)
    except (OSError, RuntimeError) as error:
        raise build_error(error, f"the package {folder}") from error
    finally:
        _remove_unfinished(folder.parent)


def _remove_unfinished(packages: Path) -> None:
    for folder in packages.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _run_worker(plan: Plan, key: PackageKey, report: Callable[[str], None], folder: Path) -> None:
    """Build a package into a folder, in another process. `key` is the plan's package key or library key."""
    folder = folder.absolute()
    scratch = folder.parent
    # The worker gets the model's path and the selected engine and precision, so that it need not select them again.
    config = dataclasses.asdict(plan.config) | {"model": plan.spec.root.absolute(), "revision": ""}
    config |= {"engine": plan.engine, "precision": plan.precision, "threads": plan.threads}
    request = {"config": config, "key": dataclasses.asdict(key), "folder": folder}
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "TMPDIR": str(scratch),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "LC_ALL": "C",
    }
    environment.pop("PYTHONWARNINGS", None)
    with (scratch / _OUTPUT_FILE).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *_WORKER_ARGUMENTS, json.dumps(request, default=str)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            start_new_session=True,  # Ctrl-C interrupts only this process, which then kills the worker
        )
    with process:
        try:
            assert process.stdout is not None  # noqa: S101 - the process was started with a pipe
            for line in process.stdout:
                message = json.loads(line)
                if "error" in message:
                    kind = getattr(errors, message["error"], RuntimeError)
                    raise kind(message["text"] or message["error"]) from RuntimeError(message["trace"])
                if "done" in message:
                    return
                report(message["step"])
            raise _crash(plan, process.wait(), scratch / _OUTPUT_FILE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _crash(plan: Plan, code: int, output: Path) -> PackageError:
    lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    detail = f", saying {lines[-1].strip()[:MAX_REASON_CHARACTERS]!r}" if lines else ""
    end = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    return PackageError(
        f"the process that compiles {plan.spec.name} ({plan.engine}, {plan.precision}) {end}{detail}: free memory and "
        "try again, or choose the engine eager"
    )


def build_error(error: Exception, subject: str) -> PackageError:
    """Return a PackageError whose one-line message says why the subject, such as "the model", cannot be built."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    reason = next(filter(_ERROR.search, lines), lines[0])[:MAX_REASON_CHARACTERS]
    return PackageError(
        f"cannot build {subject} ({reason}): free disk space or memory, set cache_dir if its disk is the cause, or "
        "choose the engine eager"
    )
