"""Names inside an index folder, which generation of it is live, and what each consists of.

CURRENT              id of the live generation and a line end
generations/<id>/    published generations, never changed
building/<id>/       a generation on its way in, or an old one on its way out
lock                 held by the one process that may write
keys.json            who may use a server
jobs/<id>/           builds that a server was asked for
pushed/              documents that were sent to a server, as they came
insights/            what people have asked a server, where that is kept
collections/<name>/  a named collection: a folder of the same shape, without collections of its own

`manifest.json` of a generation is written last and checked first. It carries a checksum of itself, and is compared byte
for byte with what its content would be written as.
"""

import errno
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from indexer.errors import ConfigError, IndexCorrupt, IndexerError, IndexMissing, IndexUnreadable

Value = TypeVar("Value")

CURRENT = "CURRENT"
GENERATIONS = "generations"
BUILDING = "building"
LOCK = "lock"
COLLECTIONS = "collections"
REPOSITORIES = "repositories"  # copies that earlier versions kept
KEYS = "keys.json"
JOBS = "jobs"
PUSHED = "pushed"
INSIGHTS = "insights"
NAMES = {CURRENT, "CURRENT.new", GENERATIONS, BUILDING, LOCK, COLLECTIONS, REPOSITORIES, KEYS, JOBS, PUSHED, INSIGHTS}
DEFAULT = "default"  # the collection that is the index folder itself

SCHEMA_VERSION = 3
RESTRICTED_VERSION = 4  # as 3, with documents that not everybody may read
ANALYSIS = 4  # how texts become terms; raise it whenever they would become others: the next build writes them again
MANIFEST = "manifest.json"
DOCUMENTS = "documents.sqlite"
VECTORS = "vectors.faiss"
ROWS = "rows.npy"
TOKENS = "tokens.npy"  # this and the next only where tokens are kept
TOKEN_OFFSETS = "token_offsets.npy"  # noqa: S105 - no password
LEXICAL = "lexical"  # a folder
LARGEST = 64 * 1024 * 1024  # bytes of a manifest
_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
_COLLECTION = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NAME = re.compile(r"(?:lexical/)?\w[\w.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PASSING = frozenset(  # errors that say nothing about the file
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EAGAIN}
)


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
    languages: tuple[str, ...] = ("en",)  # of documents, English if unknown; that of most passages first
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)  # see `indexer.generation.versions`
    schema_version: int = SCHEMA_VERSION
    analysis: int = ANALYSIS

    @property
    def is_restricted(self) -> bool:
        """Whether a document has an access list."""
        return self.schema_version == RESTRICTED_VERSION

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        content = asdict(self)
        return _dump({"checksum": _checksum(content), **content})


def is_generation_id(text: str) -> bool:
    """Return whether a text names a generation: time in UTC, a dash, six hex digits; sortable by time."""
    return _ID.fullmatch(text) is not None


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of a generation folder; raises IndexCorrupt, or IndexUnreadable for now."""
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
    """Read and check what `Manifest.to_bytes` gave; `needs` names files that must be in it. Raises IndexCorrupt."""
    if len(raw) > LARGEST:
        raise corrupt(where, "is far too large")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise corrupt(where, "is not JSON") from error
    if not isinstance(content, dict):
        raise corrupt(where, "is not a JSON object")
    version = content.get("schema_version")
    if version not in (SCHEMA_VERSION, RESTRICTED_VERSION) or content.get("analysis") != ANALYSIS:
        raise corrupt(
            where,
            f"has schema version {version!r} and analysis {content.get('analysis')!r}; this program reads "
            f"{SCHEMA_VERSION} and {RESTRICTED_VERSION}, of analysis {ANALYSIS}",
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content) or raw != _dump({"checksum": checksum, **content}):
        raise corrupt(where, "does not match its checksum")
    try:
        manifest = msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise corrupt(where, f"has other fields than a manifest ({error})") from error
    are_valid = all(
        _NAME.fullmatch(name) and _SHA256.fullmatch(record.sha256) and record.size >= 0
        for name, record in manifest.files.items()
    )
    if not are_valid or not manifest.files.keys() >= set(needs):
        raise corrupt(where, "has no valid files")
    if manifest.id != generation_id:
        raise corrupt(where, f"belongs to generation {manifest.id}")
    return manifest


def record_file(path: Path) -> FileRecord:
    """Return the size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileRecord(digest, file.tell())


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with its record; raises IndexCorrupt with the first that differs, or IndexUnreadable."""
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


def guarded(where: Path, function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that reads a file mapped into memory; it raises IndexCorrupt where that was damaged since."""

    def read(*args: Any, **kwargs: Any) -> Value:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # a panic in Rust is no Exception
            if isinstance(error, ValueError | IndexError) or type(error).__name__ == "PanicException":
                raise corrupt(where, f"cannot be read ({' '.join(str(error).split())[:100]})") from error
            raise

    return read


def unreadable(path: Path, error: OSError) -> IndexerError:
    """Return the error for a file that cannot be read: not as published, or kept from us by trouble that may pass."""
    if error.errno not in _PASSING:
        return corrupt(path, error.strerror or "cannot be read")
    what = "the file itself may be intact: check the disk or network, memory and open files (ulimit -n), and try again"
    return IndexUnreadable(f"{path}: {error.strerror}; {what}")


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(content)).hexdigest()


# Collections, and the live generation


def is_collection_name(name: str) -> bool:
    """Return whether a collection may have this name; it is then safe as the name of a folder."""
    return _COLLECTION.fullmatch(name) is not None


def collection_dir(index_dir: Path, name: str) -> Path:
    """Return the folder of a collection, whether or not it is there; raises ConfigError if none can have this name."""
    if not is_collection_name(name):
        raise ConfigError(
            f"a collection cannot be called {name[:80]!r}: 1 to 64 lower-case letters, digits, - and _ are allowed, "
            "and a letter or digit comes first"
        )
    return index_dir if name == DEFAULT else index_dir / COLLECTIONS / name


def current_id(index_dir: Path) -> str:
    """Return the id of the live generation: one small read, cheap enough to do before every query.

    Raises IndexMissing where nothing has been published, IndexCorrupt or IndexUnreadable.
    """
    path = index_dir / CURRENT
    try:
        with path.open("rb", buffering=0) as file:
            raw = file.read(100)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexMissing(
            f"there is no index in {index_dir}; build one with: pilotlight index SOURCE --index {index_dir}"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    name = raw.decode("ascii", "replace").removesuffix("\n")
    if not is_generation_id(name):
        raise corrupt(path, "does not name a generation")
    return name


def generation_folder(index_dir: Path, generation_id: str) -> Path:
    """Return the folder of a published generation; raises IndexMissing if there is none, even for an invalid id."""
    folder = index_dir / GENERATIONS / generation_id
    if not is_generation_id(generation_id) or not folder.is_dir():
        raise IndexMissing(f"there is no generation {generation_id!r} in {index_dir}")
    return folder
