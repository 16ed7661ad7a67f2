"""One generation as one file: a plain tar archive, its manifest first, to be kept as a backup or sent to a server.

An archive is read as if it came from an enemy: only files that its manifest names are taken, each at the size that
the manifest says, and nothing is published before every checksum has been compared.
"""

import gzip
import hashlib
import json
import os
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BufferedWriter
from pathlib import Path

from indexer.errors import ArchiveError, IndexCorrupt
from indexer.generation.current import current_id, generation_folder
from indexer.generation.generation import Generation
from indexer.generation.layout import DEFAULT, GENERATIONS, collection_dir
from indexer.generation.manifest import (
    LARGEST,
    MANIFEST,
    FileRecord,
    Manifest,
    corrupt,
    is_generation_id,
    read_manifest,
    unreadable,
)
from indexer.publish.collections import size_of
from indexer.publish.lock import writer_lock
from indexer.publish.publish import (
    check_space,
    disk_errors,
    flush,
    install,
    make_live,
    prepare,
    remove,
    remove_old,
    start,
    sync,
)
from indexer.publish.source_settings import without_leave
from indexer.publish.verification import problems_of, verify

_COPY = 1 << 20  # bytes read at once
_PADDING = 1 << 20  # bytes of zeros that may follow the end
_GZIP = b"\x1f\x8b"


def export_archive(index_dir: Path, file: Path, generation_id: str | None = None) -> Manifest:
    """Write a generation into an archive, which appears whole or not at all; return its manifest. Needs no lock.

    Args:
        index_dir: the index, or the folder of a collection.
        file: the archive; replaced if it is there, compressed with gzip if it ends in `.gz` or `.tgz`.
        generation_id: which generation; the live one unless it is given.

    Raises:
        IndexMissing: there is no such generation.
        IndexCorrupt: it is not as it was published.
        IndexUnreadable: a file of it cannot be read for now.
        ArchiveError: the archive cannot be written.
    """
    name = current_id(index_dir) if generation_id is None else generation_id
    folder = generation_folder(index_dir, name)
    manifest = read_manifest(folder)
    content = manifest.to_bytes()
    records = {MANIFEST: FileRecord(hashlib.sha256(content).hexdigest(), len(content)), **manifest.files}
    with ExitStack() as stack:
        sources = {}
        for member in records:  # all of them now, so that a build which removes the generation does not disturb
            try:
                sources[member] = stack.enter_context((folder / member).open("rb"))
            except OSError as error:
                raise unreadable(folder / member, error) from error
        with _replacing(file) as target:
            for member, record in records.items():
                target.write(_header(f"{name}/{member}", record.size))
                if _copy(sources[member], target, folder / member, record.size) != record.sha256:
                    raise corrupt(folder / member, "differs from its checksum")
                target.write(bytes(-record.size % tarfile.BLOCKSIZE))
            target.write(bytes(2 * tarfile.BLOCKSIZE))
    return manifest


def export_documents(index_dir: Path, file: Path, generation_id: str | None = None) -> Manifest:
    """Write the documents of a generation as JSON Lines, one document a line; return its manifest.

    Takes and raises what `export_archive` does.
    """
    generation = Generation.open(index_dir, generation_id)
    try:
        with _replacing(file) as target:
            for document in generation.documents():
                target.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        return generation.manifest
    finally:
        generation.close()


def import_archive(index_dir: Path, file: Path, *, collection: str = DEFAULT, keep_generations: int) -> Manifest:
    """Make the generation in an archive the live one; the index changes only if all of it is right.

    Returns its manifest as it is in the archive; leave to reach private addresses is not taken over from it. The
    generation keeps its id; if that is published here already, it is made live, and repaired if it is damaged.

    Args:
        index_dir: the index; made if it is missing.
        file: as `export_archive` wrote it.
        collection: which of the index; made if it is missing.
        keep_generations: how many to keep, the live one included.

    Raises:
        ArchiveError: the file cannot be read, is cut short, or is not such an archive.
        ConfigError: no collection can have this name.
        BuildLocked: another process is writing the index.
        IndexUnwritable: the folder cannot be written, is full, or holds something else.
    """
    target = collection_dir(index_dir, collection)
    with _reading(file) as archive, disk_errors(index_dir):
        content = archive.manifest()
        prepare(index_dir)
        prepare(target)
        with writer_lock(target):
            folder = start(target, archive.generation, len(content))
            try:
                (folder / MANIFEST).write_bytes(content)
                manifest = _checked(file, folder)
                (folder / MANIFEST).write_bytes(without_leave(manifest).to_bytes())
                check_space(target, size_of(manifest))
                archive.extract(folder, manifest.files)
                if problems := problems_of(verify(folder)):
                    raise ArchiveError(f"{file}: what it holds is damaged: {problems[0].partition(';')[0]}")
                flush(folder, manifest)
                _admit(target, folder, file)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            remove_old(target, keep_generations)
    return manifest


def _checked(file: Path, folder: Path) -> Manifest:
    try:
        return read_manifest(folder)
    except IndexCorrupt as error:
        raise ArchiveError(f"{file}: its manifest cannot be used: {str(error).partition(';')[0]}") from error


def _admit(index_dir: Path, folder: Path, file: Path) -> None:
    """Publish what was taken out, or what is published under its id already if that is the same and whole."""
    published = index_dir / GENERATIONS / folder.name
    if not published.exists():
        install(index_dir, folder)
    elif not problems_of(checks := verify(published)) and _same(published, folder):
        make_live(index_dir, folder.name)
    elif checks[0].ok and not _same(published, folder):
        raise ArchiveError(f"{file}: {index_dir} has another generation {folder.name}; import it elsewhere")
    else:
        remove(index_dir, folder.name)
        install(index_dir, folder)


def _same(folder: Path, other: Path) -> bool:
    """Whether two generations that are whole have the same manifest, but for what an import leaves out."""
    return without_leave(read_manifest(folder)) == without_leave(read_manifest(other))


class _Archive:
    """Reads an archive from front to back; links, devices and extended headers are refused by their first block."""

    def __init__(self, file: Path, stream: BufferedReader | gzip.GzipFile) -> None:
        self._file = file
        self._stream = stream
        self.generation = ""

    def manifest(self) -> bytes:
        """The first member, which also says the generation's id."""
        name, size = self._next() or ("", 0)
        self.generation, _, member = name.partition("/")
        if not is_generation_id(self.generation) or member != MANIFEST or size > LARGEST:
            raise self._wrong("does not begin with the manifest of a generation")
        return b"".join(self._blocks(size))

    def extract(self, folder: Path, records: dict[str, FileRecord]) -> None:
        """Write every other member into a new folder."""
        missing = dict(records)
        while (header := self._next()) is not None:
            name, size = header
            member = name.removeprefix(f"{self.generation}/")
            record = missing.pop(member, None)  # a manifest only has names that are safe
            if record is None or name != f"{self.generation}/{member}":
                raise self._wrong(f"has a member {name[:100]!r} that its manifest does not name, or has it twice")
            if size != record.size:
                raise self._wrong(f"has {name} with {size:,} bytes instead of {record.size:,}")
            path = folder / member
            try:
                path.parent.mkdir(exist_ok=True)
                target = path.open("xb")
            except (FileExistsError, NotADirectoryError) as error:
                raise self._wrong(f"names {name} for two things") from error
            with target:
                for block in self._blocks(size):
                    target.write(block)
        if missing:
            raise self._wrong(f"lacks {', '.join(sorted(missing)[:3])}")
        rest = self._read(_PADDING, least=0)
        if any(rest) or len(rest) == _PADDING:
            raise self._wrong("has data after its end")

    def _next(self) -> tuple[str, int] | None:
        """Name and size of the next member, None at the end."""
        block = self._read(tarfile.BLOCKSIZE)
        if not any(block):
            return None
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise self._wrong("is not an archive that pilotlight export wrote") from error
        if header.type != tarfile.REGTYPE or header.size < 0:
            raise self._wrong(f"has a member {header.name[:100]!r} that is not an ordinary file")
        return header.name, header.size

    def _blocks(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            block = self._read(min(left, _COPY))
            left -= len(block)
            yield block
        self._read(-size % tarfile.BLOCKSIZE)

    def _read(self, size: int, *, least: int | None = None) -> bytes:
        try:
            block = self._stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._wrong(f"cannot be unpacked ({error})") from error
        except OSError as error:
            raise ArchiveError(f"cannot read {self._file}: {error.strerror or error}") from error
        if len(block) < (size if least is None else least):
            raise self._wrong("is cut short")
        return block

    def _wrong(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._file}: the archive {what}; export it again")


@contextmanager
def _reading(file: Path) -> Iterator[_Archive]:
    try:
        raw = file.open("rb")
        packed = raw.peek(len(_GZIP)).startswith(_GZIP)
    except OSError as error:
        raise ArchiveError(f"cannot read {file}: {error.strerror or error}") from error
    with raw:
        yield _Archive(file, gzip.GzipFile(fileobj=raw) if packed else raw)


@contextmanager
def _replacing(file: Path) -> Iterator[BufferedWriter | gzip.GzipFile]:
    """A new file that takes its name when the block ends well."""
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        if file.is_dir():
            raise ArchiveError(f"{file} is a folder; name a file for the archive")
        try:
            with part.open("xb") as raw:
                if file.suffix in {".gz", ".tgz"}:
                    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                        yield packed
                else:
                    yield raw
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(part, file)
            sync(file.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ArchiveError(f"cannot write {file}: {error.strerror or error}") from error


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    # this variant writes sizes beyond 8 GB into the header itself, where the others need an extended one
    return info.tobuf(tarfile.GNU_FORMAT)


def _copy(source: BufferedReader, target: BufferedWriter | gzip.GzipFile, path: Path, size: int) -> str:
    """Copy so many bytes of a file; return their SHA-256, empty if there are fewer."""
    digest, left = hashlib.sha256(), size
    while left and (block := _block(source, min(left, _COPY), path)):
        digest.update(block)
        target.write(block)
        left -= len(block)
    return digest.hexdigest() if not left else ""


def _block(source: BufferedReader, size: int, path: Path) -> bytes:
    try:
        return source.read(size)
    except OSError as error:  # of the index, not of the archive
        raise unreadable(path, error) from error
