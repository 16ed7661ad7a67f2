"""Ahead-of-time compiled packages: built once, found by what decides their code, verified before they are loaded."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedder.cache import check_private, open_private
from embedder.errors import CompilerMissing, PackageError

RECIPE = 1  # raise it when the export or the options in compilation.py change


@dataclass(frozen=True, slots=True)
class PackageKey:
    """Everything that decides a package's code."""

    model: str
    fingerprint: str  # SHA-256 of the embedder's fingerprint, precision included
    precision: str
    isa: str
    torch: str
    threads: int
    recipe: int = RECIPE

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def folder_name(self) -> str:
        """Readable and unique."""
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()
        return f"{Path(self.model).name}-{self.precision}-{self.isa}-t{self.threads}-{digest[:12]}"


def find_compiler() -> str | None:
    """Return the path of the C++ compiler that Inductor would use, or None."""
    return shutil.which(os.environ.get("CXX") or "g++")


def package_path(cache: Path, key: PackageKey) -> Path:
    """Return where the package of a key is, or would be."""
    return cache / "packages" / key.folder_name / "model.pt2"


def ensure(cache: Path, key: PackageKey, compile_to: Callable[[Path], None]) -> Path:
    """Return the path of a verified package, building it first if there is none.

    `compile_to` writes a package to a path; it is called only where a build is needed.
    Raises CacheError, CompilerMissing, or PackageError where a package is damaged.
    """
    open_private(cache)
    path = package_path(cache, key)
    if not path.exists():
        with _locked(cache / "packages.lock"):
            if not path.exists():  # another process may have built it while this one waited
                _build(path, key, compile_to)
    verify(path, key)
    return path


def _build(path: Path, key: PackageKey, compile_to: Callable[[Path], None]) -> None:
    if find_compiler() is None:
        raise CompilerMissing(
            "compiling the model needs a C++ compiler and there is none: apt-get install g++, "
            "or choose --engine eager, which is slower"
        )
    open_private(path.parent.parent)
    # Inductor's intermediate files go beside the package, not into a shared /tmp, and are gone afterwards.
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=path.parent.parent))
    try:
        with _environment(TORCHINDUCTOR_CACHE_DIR=str(work / "inductor"), TMPDIR=str(work)):
            compile_to(work / path.name)
        record = key.as_dict() | {"sha256": _sha256(work / path.name)}
        (work / "package.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(work / "inductor", ignore_errors=True)
        work.rename(path.parent)
    except OSError as error:
        raise PackageError(
            f"cannot write the package {path} ({error.strerror}): free space or set --cache-dir"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def verify(path: Path, key: PackageKey) -> None:
    """Check ownership, that the package is the key's, and its hash: loading damaged native code cannot be survived."""
    again = f"remove {path.parent} to build it again"
    record_path = path.parent / "package.json"
    try:
        for place in (path.parent, path, record_path):
            check_private(place)
        record = json.loads(record_path.read_text(encoding="utf-8"))
        digest = _sha256(path)
    except (OSError, ValueError) as error:
        raise PackageError(f"the package {path} is damaged ({error}): {again}") from error
    for name, value in key.as_dict().items():
        if not isinstance(record, dict) or record.get(name) != value:
            found = record.get(name) if isinstance(record, dict) else record
            raise PackageError(f"the package {path} was built for {name} {found!r}, not {value!r}: {again}")
    if record.get("sha256") != digest or not zipfile.is_zipfile(path):
        raise PackageError(f"the package {path} is damaged (its SHA-256 differs from package.json): {again}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by the kernel if the holder dies
        yield


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
