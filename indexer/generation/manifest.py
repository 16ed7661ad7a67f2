"""The names of the files in an index folder, and the manifest of a generation; see docs/index-format.md.

The manifest is written last and checked first. It contains its own checksum.
"""

import errno
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import msgspec

from indexer.errors import ConfigError, IndexCorrupt, IndexerError, IndexMissing, IndexUnreadable

Value = TypeVar("Value")

CURRENT = "CURRENT"
GENERATIONS = "generations"
BUILDING = "building"
LOCK = "lock"
COLLECTIONS = "collections"
KEYS = "keys.json"
JOBS = "jobs"
PUSHED = "pushed"
INSIGHTS = "insights"
NAMES = {CURRENT, "CURRENT.new", GENERATIONS, BUILDING, LOCK, COLLECTIONS, KEYS, JOBS, PUSHED, INSIGHTS}
DEFAULT = "default"  # name of the collection that is stored in the index folder itself

SCHEMA_VERSION = 3
RESTRICTED_VERSION = 4  # schema version if any document has an access list
ANALYSIS = 4  # increment when terms change, so that the next build analyses all texts again
MANIFEST = "manifest.json"
DOCUMENTS = "documents.sqlite"
VECTORS = "vectors.faiss"
ROWS = "rows.npy"
TOKENS = "tokens.npy"
TOKEN_OFFSETS = "token_offsets.npy"  # noqa: S105 - no password
LEXICAL = "lexical"
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
_COLLECTION = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NAME = re.compile(r"(?:lexical/)?\w[\w.-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EAGAIN}
)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The SHA-256 in hex and the size in bytes of a published file."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of documents, the number of chunks, and the dimension of the vectors of a generation."""

    documents: int
    chunks: int
    dimension: int


class _Crawl(TypedDict, total=False):
    own: dict[str, dict[str, Any]]  # source → the settings that differ from those of the whole build


class _Settings(TypedDict, total=False):
    """Settings of a build that are stored for later builds."""

    crawl: _Crawl
    chunk: dict[str, Any]
    templates: dict[str, Any]
    metadata: dict[str, Any]
    model: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of an index generation; docs/index-format.md explains each field."""

    id: str
    created_at: str
    fingerprint: dict[str, Any]
    counts: Counts
    files: dict[str, FileRecord]
    settings: dict[str, Any]
    sources: list[str]
    report: dict[str, Any]
    languages: tuple[str, ...] = ("en",)
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    analysis: int = ANALYSIS

    @property
    def is_restricted(self) -> bool:
        """Return whether any document has an access list."""
        return self.schema_version == RESTRICTED_VERSION

    def to_bytes(self) -> bytes:
        """Return the manifest as it is stored in its file."""
        content = asdict(self)
        return _dump({"checksum": _checksum(content), **content})


def is_generation_id(text: str) -> bool:
    """Return whether a text is the id of a generation: UTC time, dash, six hex digits."""
    return _ID.fullmatch(text) is not None


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in a folder. Raises IndexCorrupt if it is damaged, or IndexUnreadable."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    return parse_manifest(raw, path, folder.name)


def parse_manifest(
    raw: bytes, where: Path | str, generation_id: str, needs: Collection[str] = (DOCUMENTS, VECTORS, ROWS)
) -> Manifest:
    """Parse a manifest. Raises IndexCorrupt if it is invalid.

    Args:
        where: path of the manifest, or another description of it, for error messages.
        generation_id: the id that the manifest must have.
        needs: names of files that the manifest must list.
    """
    if len(raw) > MAX_MANIFEST_BYTES:
        raise corrupt(where, f"has more than {MAX_MANIFEST_BYTES:,} bytes")
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
            f"has schema version {version!r} and analysis {content.get('analysis')!r}; this program reads schema "
            f"versions {SCHEMA_VERSION} and {RESTRICTED_VERSION} with analysis {ANALYSIS}",
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content) or raw != _dump({"checksum": checksum, **content}):
        raise corrupt(where, "does not match its checksum")
    try:
        manifest = msgspec.convert(content, Manifest)
        msgspec.convert(manifest.settings, _Settings)
    except msgspec.ValidationError as error:
        raise corrupt(where, f"does not have the fields of a manifest ({error})") from error
    are_valid = all(
        _NAME.fullmatch(name) and _SHA256.fullmatch(record.sha256) and record.size >= 0
        for name, record in manifest.files.items()
    )
    if not are_valid or not manifest.files.keys() >= set(needs):
        raise corrupt(where, "has an invalid or incomplete list of files")
    if manifest.id != generation_id:
        raise corrupt(where, f"belongs to generation {manifest.id}")
    return manifest


def record_file(path: Path) -> FileRecord:
    """Return the size and SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileRecord(digest, file.tell())


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with its size and SHA-256. Raises IndexCorrupt if one differs, or IndexUnreadable."""
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
    """Return the names of the fields in which two fingerprints differ."""
    return sorted(name for name in fingerprint.keys() | other.keys() if fingerprint.get(name) != other.get(name))


def corrupt(where: Path | str, problem: str) -> IndexCorrupt:
    """Return an error for a damaged file, with advice to the user. `problem` follows the file name in the message."""
    problem = problem[:1].lower() + problem[1:]
    return IndexCorrupt(f"{where}: {problem}; rebuild the index, or roll back to an older generation")


def guarded(where: Path, function: Callable[..., Value]) -> Callable[..., Value]:
    """Wrap a function that reads a memory-mapped file, so that damage to the file raises IndexCorrupt."""

    def read(*args: Any, **kwargs: Any) -> Value:
        try:
            return function(*args, **kwargs)
        except BaseException as error:  # Rust panics derive from BaseException
            if isinstance(error, ValueError | IndexError) or type(error).__name__ == "PanicException":
                raise corrupt(where, f"cannot be read ({' '.join(str(error).split())[:100]})") from error
            raise

    return read


def unreadable(path: Path, error: OSError) -> IndexerError:
    """Return IndexUnreadable if an operating system error is temporary, otherwise IndexCorrupt."""
    if error.errno not in _TEMPORARY:
        return corrupt(path, error.strerror or "cannot be read")
    advice = "check the disk or network, memory and open files (ulimit -n), and try again"
    return IndexUnreadable(f"{path}: {error.strerror}; the file itself may be intact: {advice}")


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(content)).hexdigest()


def is_collection_name(name: str) -> bool:
    """Return whether a text is a valid collection name. Valid names are safe as folder names."""
    return _COLLECTION.fullmatch(name) is not None


def collection_dir(index_dir: Path, name: str) -> Path:
    """Return the folder of a collection, even if it does not exist. Raises ConfigError if the name is not valid."""
    if not is_collection_name(name):
        raise ConfigError(
            f"the collection name {name[:80]!r} is not valid: use 1 to 64 lower-case letters, digits, - and _, "
            "beginning with a letter or digit"
        )
    return index_dir if name == DEFAULT else index_dir / COLLECTIONS / name


def current_id(index_dir: Path) -> str:
    """Return the id of the live generation. Raises IndexMissing, IndexCorrupt or IndexUnreadable."""
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
    """Return the folder of a published generation. Raises IndexMissing if it does not exist or the id is invalid."""
    folder = index_dir / GENERATIONS / generation_id
    if not is_generation_id(generation_id) or not folder.is_dir():
        raise IndexMissing(f"there is no generation {generation_id!r} in {index_dir}")
    return folder
