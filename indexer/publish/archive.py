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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import IO, TypeVar, cast

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

Result = TypeVar("Result")

_COPY = 1 << 20  # bytes read at once
_HEADERS = 16 * tarfile.BLOCKSIZE  # bytes of a member before its content; a header that is longer is refused
_PADDING = 1 << 20  # bytes of zeros that may follow the end
_GZIP = b"\x1f\x8b"


def export_archive(index_dir: Path, file: Path, generation_id: str | None = None) -> Manifest:
    """Write a generation into an archive, which appears whole or not at all; return its manifest. Needs no lock.

    Args:
        index_dir: the index, or the folder of a collection.
        file: the archive; replaced if it exists, compressed with gzip if it ends in `.gz` or `.tgz`.
        generation_id: which generation; the live one by default.

    Raises:
        IndexMissing: there is no such generation.
        IndexCorrupt: it is not as it was published.
        IndexUnreadable: a file of it cannot be read for now.
        ArchiveError: the archive cannot be written.
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

    Returns its manifest as it is in the archive; leave to reach private addresses is not imported. The generation keeps
    its id; if that is published here already, it is made live, and repaired if it is damaged.

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
    with _opened(file) as stream, disk_errors(index_dir):
        archive = _Archive(file, stream)
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
    """Publish an extracted generation, or the one that is published under its id if that is the same and whole."""
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
    """Return whether two whole generations have the same manifest, but for settings that an import leaves out."""
    return without_leave(read_manifest(folder)) == without_leave(read_manifest(other))


class _Archive:
    """Reads an archive from front to back."""

    def __init__(self, file: Path, stream: BufferedReader | gzip.GzipFile) -> None:
        """Read the first header. Raises ArchiveError."""
        self._file = file
        self._stream = _Limited(stream, file)
        self.generation = ""
        self._tar = self._guarded(lambda: tarfile.TarFile(fileobj=cast(IO[bytes], self._stream), errors="strict"))
        self._tar.copybufsize = _COPY  # type: ignore[attr-defined]  # of the standard library, but not in its stubs

    def manifest(self) -> bytes:
        """Return the content of the first member, whose name has the id of the generation."""
        info = self._next()
        self.generation, _, member = info.name.partition("/") if info else ("", "", "")
        if info is None or not is_generation_id(self.generation) or member != MANIFEST or info.size > LARGEST:
            raise self._wrong("does not begin with the manifest of a generation")
        self._stream.left = info.size + tarfile.BLOCKSIZE
        content = io.BytesIO()
        with cast(IO[bytes], self._tar.extractfile(info)) as source:
            self._guarded(lambda: shutil.copyfileobj(source, content, _COPY))
        if len(content.getvalue()) < info.size:
            raise self._wrong("is cut short")
        return content.getvalue()

    def extract(self, folder: Path, records: dict[str, FileRecord]) -> None:
        """Write every other member into a new folder."""
        missing = dict(records)
        while info := self._next():
            name, member = info.name, info.name.removeprefix(f"{self.generation}/")
            record = missing.pop(member, None)  # a manifest only has names that are safe
            if record is None or name != f"{self.generation}/{member}":
                raise self._wrong(f"has a member {name[:100]!r} that its manifest does not name, or has it twice")
            if info.size != record.size:
                raise self._wrong(f"has {name} with {info.size:,} bytes instead of {record.size:,}")
            info.name, self._stream.left = member, info.size + tarfile.BLOCKSIZE
            self._guarded(partial(self._tar.extract, info, folder, filter="data"))
        if missing:
            raise self._wrong(f"lacks {', '.join(sorted(missing)[:3])}")
        self._stream.left = _PADDING
        rest = self._stream.read(_PADDING)
        if any(rest) or len(rest) == _PADDING:
            raise self._wrong("has data after its end")

    def _next(self) -> tarfile.TarInfo | None:
        """Return the next member, None at the end. Raises ArchiveError unless it is an ordinary file."""
        self._stream.left = _HEADERS
        info = self._guarded(self._tar.next)
        if info and (info.type != tarfile.REGTYPE or info.pax_headers or info.sparse is not None):
            raise self._wrong(f"has a member {info.name[:100]!r} that is not an ordinary file")
        return info

    def _guarded(self, step: Callable[[], Result]) -> Result:
        try:
            return step()
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise self._wrong("has one name for two things") from error
        except tarfile.ReadError as error:
            raise self._wrong("is cut short, or not one that pilotlight export wrote") from error
        except (tarfile.TarError, ValueError) as error:
            raise self._wrong("is not an archive that pilotlight export wrote") from error

    def _wrong(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._file}: the archive {what}; export it again")


class _Limited:
    """The stream of an archive; it gives no more bytes than `left`, so that no header can fill the memory."""

    def __init__(self, stream: BufferedReader | gzip.GzipFile, file: Path) -> None:
        self._stream = stream
        self._file = file
        self.left = _HEADERS

    def read(self, size: int) -> bytes:
        if size > self.left:
            raise ArchiveError(f"{self._file}: the archive has a header that is no export's; export it again")
        self.left -= size
        return self._guarded(lambda: self._stream.read(size))

    def seek(self, place: int) -> int:
        return self._guarded(lambda: self._stream.seek(place))

    def tell(self) -> int:
        return self._stream.tell()

    def _guarded(self, step: Callable[[], Result]) -> Result:
        try:
            return step()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ArchiveError(f"{self._file}: the archive cannot be unpacked ({error}); export it again") from error
        except OSError as error:
            raise ArchiveError(f"cannot read {self._file}: {error.strerror or error}") from error


@contextmanager
def _opened(file: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    try:
        raw = file.open("rb")
        is_packed = raw.peek(len(_GZIP)).startswith(_GZIP)
    except OSError as error:
        raise ArchiveError(f"cannot read {file}: {error.strerror or error}") from error
    with raw:
        yield gzip.GzipFile(fileobj=raw) if is_packed else raw


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
