"""The list of what a generation consists of: `manifest.json`, written last, checked first.

The file carries a checksum of itself and is compared byte for byte with what its content would be written as, so
any change to it is noticed.
"""

import errno
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from indexer.errors import IndexCorrupt, IndexerError, IndexUnreadable

SCHEMA_VERSION = 3
RESTRICTED_VERSION = (
    4  # as 3, with documents that not everybody may read: older programs, which would show them, refuse
)
ANALYSIS = (
    2  # how texts become terms; raise it whenever they would become others, then the next build writes them again
)
_READ = (2, SCHEMA_VERSION, RESTRICTED_VERSION)  # words of version 2 are stemmed as English, whatever the language
_ENGLISH = ("en",)
MANIFEST = "manifest.json"
DOCUMENTS = "documents.sqlite"
VECTORS = "vectors.faiss"
ROWS = "rows.npy"
REPETITION = "repetition.npy"  # not in generations of older programs
TOKENS = "tokens.npy"  # this and the next only where tokens are kept
TOKEN_OFFSETS = "token_offsets.npy"  # noqa: S105 - no password
LEXICAL = "lexical"  # a folder
LARGEST = 64 * 1024 * 1024  # bytes of a manifest
_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
_NAME = re.compile(r"(?:lexical/)?\w[\w.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_READ_SIZE = 1 << 20
_FILES = "close some files or raise the limit of open ones (ulimit -n), and try again"
_DISK = "the file itself may be intact: check the disk or network, and try again"
_REMEDIES = {  # of errors that say nothing about the file
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: "free some memory, and try again",
    errno.EIO: _DISK,
    errno.ESTALE: _DISK,
    errno.ETIMEDOUT: _DISK,
    errno.ENOTCONN: _DISK,
    errno.EAGAIN: "try again",
    errno.EINTR: "try again",
}


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file as it was published."""

    sha256: str  # hex
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """How many documents and chunks a generation has, and the length of its vectors."""

    documents: int
    chunks: int
    dimension: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything known about a generation besides its content."""

    id: str
    created_at: str  # ISO 8601, UTC
    fingerprint: dict[str, Any]  # of the embedder that made the vectors
    counts: Counts
    files: dict[str, FileRecord]
    settings: dict[str, Any]  # crawl and chunk settings of the build
    sources: list[str]
    report: dict[str, Any]  # what the build did
    languages: tuple[str, ...] = _ENGLISH  # by whose rules words are stemmed, the most frequent one first
    schema_version: int = SCHEMA_VERSION
    analysis: int = ANALYSIS  # 1: signs such as those of C++ were left out

    @property
    def is_restricted(self) -> bool:
        """Whether a document has an access list."""
        return self.schema_version == RESTRICTED_VERSION

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        content = asdict(self)
        return _dump({"checksum": _checksum(content), **content})


def schema_version(*, restricted: bool) -> int:
    """Return the version of a generation that is written now."""
    return RESTRICTED_VERSION if restricted else SCHEMA_VERSION


def is_generation_id(text: str) -> bool:
    """Return whether a text names a generation: time in UTC, a dash, six hex digits; sortable by time."""
    return _ID.fullmatch(text) is not None


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a generation folder.

    Raises:
        IndexCorrupt: it is missing, altered, or of a version this program does not know.
        IndexUnreadable: it cannot be read for now.
    """
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    return parse_manifest(raw, path, folder.name)


def parse_manifest(
    raw: bytes, where: Path | str, generation_id: str, needs: Collection[str] = (DOCUMENTS, VECTORS, ROWS)
) -> Manifest:
    """Check what `Manifest.to_bytes` gave, wherever it was kept, and read it; `needs` names files that must be in it.

    Raises:
        IndexCorrupt: it is altered, of a version this program does not know, or of another generation; names `where`.
    """
    if len(raw) > LARGEST:
        raise corrupt(where, "is far too large")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise corrupt(where, "is not JSON") from error
    if not isinstance(content, dict):
        raise corrupt(where, "is not a JSON object")
    version = content.get("schema_version")
    if version not in _READ:
        raise corrupt(where, f"has schema version {version!r}, this program reads {', '.join(map(str, _READ))}")
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content) or raw != _dump({"checksum": checksum, **content}):
        raise corrupt(where, "does not match its checksum")
    try:
        manifest = _typed(content)
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(where, f"has no valid {str(error).strip(chr(39))}") from error
    if not manifest.files.keys() >= set(needs):
        raise corrupt(where, "has no valid files")
    if manifest.id != generation_id:
        raise corrupt(where, f"belongs to generation {manifest.id}")
    return manifest


def record_file(path: Path) -> FileRecord:
    """Return the size and SHA-256 of a file."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while block := file.read(_READ_SIZE):
            digest.update(block)
            size += len(block)
    return FileRecord(digest.hexdigest(), size)


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with its record.

    Raises:
        IndexCorrupt: a file differs; the message names the first.
        IndexUnreadable: a file cannot be read for now.
    """
    for name, record in manifest.files.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != record.size:
                raise corrupt(path, f"has {size:,} bytes instead of {record.size:,}")
            if record_file(path) != record:
                raise corrupt(path, "differs from its checksum")
        except OSError as error:
            raise unreadable(path, error) from error


def differing_fields(fingerprint: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Return the names of the fields in which the embedders behind two fingerprints differ."""
    return sorted(name for name in fingerprint.keys() | other.keys() if fingerprint.get(name) != other.get(name))


def corrupt(where: Path | str, what: str) -> IndexCorrupt:
    """Return the error for a file, or what stands in for one, that is not as it was published."""
    what = what[:1].lower() + what[1:]
    return IndexCorrupt(f"{where}: {what}; rebuild the index, or roll back to an older generation")


def unreadable(path: Path, error: OSError) -> IndexerError:
    """Return the error for a file that cannot be read: not as published, or kept from us by trouble that may pass."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return corrupt(path, error.strerror or "cannot be read")
    return IndexUnreadable(f"{path}: {error.strerror}; {remedy}")


def _typed(content: dict[str, Any]) -> Manifest:
    """Build the record; raises KeyError, TypeError or ValueError with the field's name."""
    files = {}
    for name, record in _field(content, "files", dict).items():
        sha256, size = _field(record, "sha256", str), _field(record, "size", int)
        if not _SHA256.fullmatch(sha256) or size < 0 or not _NAME.fullmatch(name):
            raise ValueError("files")
        files[name] = FileRecord(sha256, size)
    counts = _field(content, "counts", dict)
    sources = _field(content, "sources", list)
    if not all(isinstance(source, str) for source in sources):
        raise ValueError("sources")
    languages = content.get("languages") if content["schema_version"] >= SCHEMA_VERSION else list(_ENGLISH)
    if not isinstance(languages, list) or not all(isinstance(language, str) for language in languages):
        raise ValueError("languages")
    return Manifest(
        id=_field(content, "id", str),
        created_at=_field(content, "created_at", str),
        fingerprint=_field(content, "fingerprint", dict),
        counts=Counts(
            documents=_field(counts, "documents", int),
            chunks=_field(counts, "chunks", int),
            dimension=_field(counts, "dimension", int),
        ),
        files=files,
        settings=_field(content, "settings", dict),
        sources=sources,
        report=_field(content, "report", dict),
        languages=tuple(languages),
        schema_version=content["schema_version"],
        analysis=_field({"analysis": 1} | content, "analysis", int),
    )


def _field(content: Any, name: str, kind: type) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get(name), kind):
        raise ValueError(name)
    return content[name]


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(content)).hexdigest()
