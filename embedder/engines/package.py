"""Compiled packages: built once, found by their key, verified before they are loaded."""

import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedder.cache import check_private, open_private, unusable
from embedder.engines.failures import explained
from embedder.engines.library import find_compiler, has_built
from embedder.errors import CompilerMissing, PackageError

RECIPE = 6  # raise it when what a package holds, or how it is compiled, changes; sources speak for themselves
_RECORD = "package.json"
_UNFINISHED = ".building-"
_LISTED = 5  # packages that do not fit, in one error


@dataclass(frozen=True, slots=True)
class PackageKey:
    """Everything that determines a package's code."""

    model: str
    engine: str
    fingerprint: str  # SHA-256 of the embedder's fingerprint, precision included
    precision: str
    isa: str
    torch: str  # empty where the code does not depend on it
    threads: int  # 0 where the code does not depend on it
    sources: str = ""  # SHA-256 of the native library's; empty for other engines
    recipe: int = RECIPE

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def folder_name(self) -> str:
        """Folder name of the package, readable and unique."""
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()
        return f"{Path(self.model).name}-{self.engine}-{self.precision}-{self.isa}-{digest[:12]}"


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
            found = _sha256(path)
        except OSError as error:
            raise PackageError(f"the package file {path} cannot be read ({error.strerror}): {again}") from error
        if found != digest:
            raise PackageError(f"the package file {path} is damaged (its SHA-256 differs from {_RECORD}): {again}")


def _build(folder: Path, key: PackageKey, build: Callable[[Path], None]) -> None:
    if find_compiler() is None and not (key.engine == "native" and has_built()):
        raise CompilerMissing(_without_compiler(folder.parent, key))
    open_private(folder.parent)
    _remove_unfinished(folder.parent)  # of a build that was killed; the lock says that none is running
    try:
        # Intermediate files go beside the package, not into a shared /tmp, and are gone afterwards.
        work = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder.parent))
        made = work / "package"
        made.mkdir(mode=0o700)
        build(made)
        record = key.as_dict() | {"files": {path.name: _sha256(path) for path in sorted(made.iterdir())}}
        (made / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        made.rename(folder)
    except (OSError, RuntimeError, PackageError) as error:
        raise explained(error, f"the package {folder}", "set --cache-dir", folder.parent) from error
    finally:
        _remove_unfinished(folder.parent)


def _remove_unfinished(packages: Path) -> None:
    for left in packages.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)


def _without_compiler(packages: Path, key: PackageKey) -> str:
    text = (
        f"compiling {key.model} ({key.engine}, {key.precision}, {key.isa}) needs a C++ compiler and there is none: "
        f"apt-get install g++, copy a package built on a machine of the same kind into {packages}, "
        "or choose --engine eager, which is slower"
    )
    others = misfits(packages, key)
    if others:
        more = f"; and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        text += f"; packages there that do not fit: {'; '.join(others[:_LISTED])}{more}"
    return text


def misfits(packages: Path, key: PackageKey) -> list[str]:
    """Describe each package of the key's model in a folder, and how it differs from the key."""
    found = []
    for folder in sorted(packages.glob("[!.]*")):
        try:
            record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            if record["model"] != key.model:
                continue
        except (OSError, ValueError, KeyError, TypeError):
            found.append(f"{folder.name} ({_RECORD} is damaged)")
            continue
        differences = [
            "other weights or files of the model"
            if name == "fingerprint"
            else f"{name} {record.get(name)}, not {value}"
            for name, value in key.as_dict().items()
            if record.get(name) != value
        ]
        found.append(f"{folder.name} ({', '.join(differences) or 'not where it belongs'})")
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        file = path.open("a")
    except OSError as error:
        raise unusable(path.parent, error) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by the kernel if the holder dies
        yield
