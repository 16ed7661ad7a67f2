"""Where annotated pages come from.

Those of other projects are fetched from where they are published, by exact version and checksum, and never kept here.
Those in made.zip.base64 were made by their generators from the texts in tests/quality/manual, written for this.
"""

import base64
import hashlib
import io
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

MADE = Path(__file__).with_name("made.zip.base64")
_SOURCES = """\
deb https://deb.debian.org/debian bookworm main
deb https://deb.debian.org/debian trixie main
"""


class NotFetched(Exception):
    """A package is not to be had here; says which and why."""


def fetch(package: Mapping[str, str], cache: Path) -> Path:
    """Folder of a package's files, fetched unless it is there; raises NotFetched if it cannot be.

    A package is one of Debian (`debian`, `version`, `sha256` of its file), or in made.zip.base64 (`made`: by what).
    """
    if "made" in package:
        return _unzipped(cache)
    name, version = package["debian"], package["version"]
    folder = folder_of(package, cache)
    if folder.is_dir():
        return folder
    archive = _download(name, version, cache / "apt")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != package["sha256"]:
        raise NotFetched(f"{archive.name} is not the file that was annotated: its checksum differs")
    unpacked = folder.with_name(folder.name + ".part")
    _run("dpkg-deb", "-x", str(archive), str(unpacked))
    unpacked.rename(folder)
    archive.unlink()
    return folder


def _unzipped(cache: Path) -> Path:
    folder = cache / f"made_{hashlib.sha256(MADE.read_bytes()).hexdigest()[:16]}"
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(MADE.read_bytes()))) as pages:
        pages.extractall(folder)
    return folder


def folder_of(package: Mapping[str, str], cache: Path) -> Path:
    """Where a package's files are once they have been fetched."""
    return cache / f"{package['debian']}_{package['version'].replace(':', '%3a')}"


def _download(name: str, version: str, apt: Path) -> Path:
    """Have apt download a package, by lists of its own, so that the machine's stay as they are."""
    for part in ("lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    options = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    given = [text for name, value in options.items() for text in ("-o", f"{name}={value}")]
    if not (apt / "sources.list").exists():
        (apt / "sources.list").write_text(_SOURCES, encoding="utf-8")
        try:
            _run("apt-get", *given, "update")
        except NotFetched:
            (apt / "sources.list").unlink()
            raise
    _run("apt-get", *given, "download", f"{name}={version}", folder=apt)
    return next(apt.glob(f"{name}_*.deb"))


def _run(*command: str, folder: Path | None = None) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=600)
    except FileNotFoundError as error:
        raise NotFetched(f"{command[0]} is not installed") from error
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = str(error.stderr or error).strip().splitlines()
        raise NotFetched(f"{command[0]} failed: {said[-1] if said else error}") from error
