"""One generation as one file: a plain tar archive, its manifest first, to be kept as a backup or sent to a server.

An archive is read as if it came from an enemy: only ordinary files that its manifest names are taken, each at the size
of its record, and nothing is published before every checksum has been compared.
"""

import gzip
import hashlib
import io
import json
import os
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import BinaryIO

from indexer.errors import ArchiveError, IndexCorrupt
from indexer.generation.generation import Generation
from indexer.generation.layout import DEFAULT, GENERATIONS, collection_dir, current_id, generation_folder
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
from indexer.publish.collections import size_of, writer_lock
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
    """Write a generation, the live one by default, into an archive; return its manifest. Needs no lock.

    The file appears whole or not at all, and is compressed with gzip if it ends in `.gz` or `.tgz`.
    Raises IndexMissing, IndexCorrupt or IndexUnreadable for the generation, ArchiveError for the file.
    """
    name = current_id(index_dir) if generation_id is None else generation_id
    folder = generation_folder(index_dir, name)
    manifest = read_manifest(folder)
    with ExitStack() as stack:
        sources: dict[str, BufferedReader | io.BytesIO] = {MANIFEST: io.BytesIO(manifest.to_bytes())}
        for member, record in manifest.files.items():  # opened now, so that a build may remove the generation meanwhile
            try:
                opened = sources[member] = stack.enter_context((folder / member).open("rb"))
                if hashlib.file_digest(opened, "sha256").hexdigest() != record.sha256:
                    raise corrupt(folder / member, "differs from its checksum")
            except OSError as error:
                raise unreadable(folder / member, error) from error
        # GNU's format has sizes beyond 8 GB in the header itself, where others need an extended one
        target = stack.enter_context(_replacing(file))
        tar = stack.enter_context(tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT))
        for member, source in sources.items():
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size = source.seek(0, os.SEEK_END)
            source.seek(0)
            tar.addfile(info, source)
    return manifest


def export_documents(index_dir: Path, file: Path, generation_id: str | None = None) -> Manifest:
    """Write the documents of a generation as JSON Lines, as `export_archive` does; return its manifest."""
    with closing(Generation.open(index_dir, generation_id)) as generation, _replacing(file) as target:
        for document in generation.documents():
            target.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        return generation.manifest


def import_archive(index_dir: Path, file: Path, *, collection: str = DEFAULT, keep_generations: int) -> Manifest:
    """Make the generation in an archive the live one; the index changes only if all of it is right.

    Returns its manifest as it is in the archive; leave to reach private addresses is not imported. The generation keeps
    its id; if that is published here already, it is made live, and repaired if it is damaged.

    Raises:
        ArchiveError: the file cannot be read, is cut short, or is not such an archive.
        ConfigError: no collection can have this name.
        BuildLocked, IndexUnwritable: the index cannot be written.
    """
    target = collection_dir(index_dir, collection)
    with _opened(file) as archive, disk_errors(index_dir):
        generation_id, content = archive.manifest()
        prepare(index_dir)
        prepare(target)
        with writer_lock(target):
            folder = start(target, generation_id, len(content))
            try:
                (folder / MANIFEST).write_bytes(content)
                try:
                    manifest = read_manifest(folder)
                except IndexCorrupt as error:
                    reason = str(error).partition(";")[0]
                    raise ArchiveError(f"{file}: its manifest cannot be used: {reason}") from error
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


def _admit(index_dir: Path, folder: Path, file: Path) -> None:
    """Publish an extracted generation, or the one that is published under its id if that is the same and whole."""
    published = index_dir / GENERATIONS / folder.name
    if published.exists():
        checks = verify(published)
        if checks[0].ok:  # its manifest; two are the same but for settings that an import leaves out
            if without_leave(read_manifest(published)) != without_leave(read_manifest(folder)):
                raise ArchiveError(f"{file}: {index_dir} has another generation {folder.name}; import it elsewhere")
            if not problems_of(checks):
                make_live(index_dir, folder.name)
                return
        remove(index_dir, folder.name)
    install(index_dir, folder)


class _Archive:
    """Reads an archive from front to back, header by header, so that no extended header can fill the memory."""

    def __init__(self, file: Path, stream: BinaryIO | gzip.GzipFile) -> None:
        self._file = file
        self._stream = stream
        self._top = ""  # id of the generation, which is the folder of every member

    def manifest(self) -> tuple[str, bytes]:
        """Return the id of the generation and the content of the first member, which has to be its manifest."""
        info = self._next()
        self._top, _, member = info.name.partition("/") if info else ("", "", "")
        if info is None or not is_generation_id(self._top) or member != MANIFEST or not 0 <= info.size <= LARGEST:
            raise self._wrong("does not begin with the manifest of a generation")
        content = io.BytesIO()
        self._copy(info.size, content)
        return self._top, content.getvalue()

    def extract(self, folder: Path, records: dict[str, FileRecord]) -> None:
        """Write every other member into a new folder."""
        missing = dict(records)
        while info := self._next():
            member = info.name.removeprefix(f"{self._top}/")
            record = missing.pop(member, None)  # a manifest only has names that are safe
            if record is None or info.name != f"{self._top}/{member}":
                raise self._wrong(f"has a member {info.name[:100]!r} that its manifest does not name, or has it twice")
            if info.size != record.size:
                raise self._wrong(f"has {info.name} with {info.size:,} bytes instead of {record.size:,}")
            try:
                (folder / member).parent.mkdir(exist_ok=True)
                with (folder / member).open("xb") as target:
                    self._copy(info.size, target)
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
                raise self._wrong("has one name for two things") from error
        if missing:
            raise self._wrong(f"lacks {', '.join(sorted(missing)[:3])}")
        rest = self._read(_PADDING)
        if any(rest) or len(rest) == _PADDING:
            raise self._wrong("has data after its end")

    def _next(self) -> tarfile.TarInfo | None:
        """Return the next member, which is an ordinary file, or None at the end."""
        block = self._read(tarfile.BLOCKSIZE)
        if block == bytes(tarfile.BLOCKSIZE):
            return None
        try:
            info = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise self._wrong("is cut short, or not one that pilotlight export wrote") from error
        if info.type != tarfile.REGTYPE:
            raise self._wrong(f"has a member {info.name[:100]!r} that is not an ordinary file")
        return info

    def _copy(self, size: int, target: BinaryIO) -> None:
        """Copy the content of a member, and pass over what fills up its last block."""
        left = size
        while left:
            piece = self._read(min(left, _COPY))
            if not piece:
                raise self._wrong("is cut short")
            target.write(piece)
            left -= len(piece)
        self._read(-size % tarfile.BLOCKSIZE)

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ArchiveError(f"{self._file}: the archive cannot be unpacked ({error}); export it again") from error
        except OSError as error:
            raise ArchiveError(f"cannot read {self._file}: {error.strerror or error}") from error

    def _wrong(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._file}: the archive {what}; export it again")


@contextmanager
def _opened(file: Path) -> Iterator[_Archive]:
    try:
        raw = file.open("rb")
        is_packed = raw.peek(len(_GZIP)).startswith(_GZIP)
    except OSError as error:
        raise ArchiveError(f"cannot read {file}: {error.strerror or error}") from error
    with raw:
        yield _Archive(file, gzip.GzipFile(fileobj=raw) if is_packed else raw)


@contextmanager
def _replacing(file: Path) -> Iterator[BufferedWriter | gzip.GzipFile]:
    """Give a new file that takes its name when the block ends well."""
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
