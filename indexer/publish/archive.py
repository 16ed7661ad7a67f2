"""Export a generation to a tar archive, as a backup or for another server, and import it.

Archives are not trusted: only regular files that the manifest names are extracted, up to their recorded size, and
nothing is published before all checksums match.
"""

import hashlib
import io
import json
import os
import secrets
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from io import BufferedReader, BufferedWriter
from pathlib import Path

from indexer.config import without_private_access
from indexer.errors import ArchiveError, IndexCorrupt
from indexer.generation import manifest as manifests
from indexer.generation.generation import Generation
from indexer.generation.manifest import DEFAULT, GENERATIONS, MANIFEST, MAX_MANIFEST_BYTES, FileRecord, Manifest
from indexer.publish import publish
from indexer.publish.publish import problems_of, size_of, verify, writer_lock

_BUFFER_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"


def export_archive(index_dir: Path, file: Path, generation_id: str | None = None) -> Manifest:
    """Write a generation to an archive, and return its manifest.

    Args:
        index_dir: folder of the collection, not of the whole index.
        file: the archive, a tar file; an existing file is replaced.
        generation_id: generation to write, by default the live one.

    Raises:
        IndexMissing, IndexCorrupt, IndexUnreadable: the generation cannot be read.
        ArchiveError: the file cannot be written. A partial file is removed.
    """
    name = manifests.current_id(index_dir) if generation_id is None else generation_id
    folder = manifests.generation_folder(index_dir, name)
    manifest = manifests.read_manifest(folder)
    with ExitStack() as stack:
        sources: dict[str, BufferedReader | io.BytesIO] = {MANIFEST: io.BytesIO(manifest.to_bytes())}
        for member, record in manifest.files.items():  # open all files first, because a build may remove them
            try:
                opened = sources[member] = stack.enter_context((folder / member).open("rb"))
                if hashlib.file_digest(opened, "sha256").hexdigest() != record.sha256:
                    raise manifests.corrupt(folder / member, "differs from its checksum")
            except OSError as error:
                raise manifests.unreadable(folder / member, error) from error
        target = stack.enter_context(_replacing(file))
        # in the GNU format, files over 8 GB need no extended headers, which `_read_headers` refuses
        tar = stack.enter_context(tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT))
        for member, source in sources.items():
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size = source.seek(0, os.SEEK_END)
            source.seek(0)
            tar.addfile(info, source)
    return manifest


def export_documents(index_dir: Path, file: Path, generation_id: str | None = None) -> Manifest:
    """Write the documents of a generation as JSON Lines, and return its manifest. Raises like `export_archive`."""
    with closing(Generation.open(index_dir, generation_id)) as generation, _replacing(file) as target:
        for document in generation.documents():
            target.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        return generation.manifest


def import_archive(index_dir: Path, file: Path, *, collection: str = DEFAULT, keep_generations: int) -> Manifest:
    """Make the generation in an archive the live generation, and return its manifest.

    Permissions to reach private addresses are removed. If the index already has an intact copy of the generation, that
    copy becomes live; a damaged copy is replaced.

    Args:
        index_dir: folder of the whole index.
        collection: name of the collection to publish to.
        keep_generations: number of generations to keep, including the live one.

    Raises:
        ArchiveError: the file cannot be read, is truncated, or is not an archive of an index.
        ConfigError: the name of the collection is not valid.
        BuildLocked, IndexUnwritable: the index cannot be written.
    """
    target = manifests.collection_dir(index_dir, collection)
    with _reading(file) as raw, publish.disk_errors(index_dir):
        headers = _read_headers(raw)
        first = next(headers, None)
        generation_id, _, name = first.name.partition("/") if first else ("", "", "")
        is_manifest = name == MANIFEST and manifests.is_generation_id(generation_id)
        if first is None or not is_manifest or first.size > MAX_MANIFEST_BYTES:
            raise _wrong(file, "does not begin with the manifest of a generation")
        publish.prepare(index_dir)
        publish.prepare(target)
        with writer_lock(target):
            folder = publish.start(target, keep_generations, generation_id, first.size)
            try:
                _copy(raw, first.size, folder / MANIFEST)
                try:
                    manifest = manifests.read_manifest(folder)
                except IndexCorrupt as error:
                    reason = str(error).partition(";")[0]
                    raise ArchiveError(f"{file}: its manifest cannot be used: {reason}") from error
                (folder / MANIFEST).write_bytes(without_private_access(manifest).to_bytes())
                publish.check_space(target, size_of(manifest))
                _extract(raw, headers, folder, manifest.files, file)
                if problems := problems_of(verify(folder)):
                    raise ArchiveError(f"{file}: the archive is damaged: {problems[0].partition(';')[0]}")
                publish.flush(folder, manifest)
                _admit(target, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            publish.remove_old(target, keep_generations)
    return manifest


def _admit(index_dir: Path, folder: Path) -> None:
    """Publish an extracted generation. If the index already has an intact copy, make that copy live instead."""
    published = index_dir / GENERATIONS / folder.name
    if published.exists():
        if not problems_of(verify(published)):
            publish.make_live(index_dir, folder.name)
            return
        publish.remove(index_dir, folder.name)
    publish.install(index_dir, folder)


def _read_headers(raw: BufferedReader) -> Iterator[tarfile.TarInfo]:
    """Yield each member's header, with `raw` positioned at its content. Raises ReadError if one is not a file."""
    while (block := raw.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if info.type != tarfile.REGTYPE or info.size < 0:
            raise tarfile.ReadError(f"its member {info.name!r} is not an ordinary file")
        end = raw.tell() + info.size
        yield info
        raw.seek(end + -end % tarfile.BLOCKSIZE)


@contextmanager
def _reading(file: Path) -> Iterator[BufferedReader]:
    """Open an archive. Raises ArchiveError if it cannot be opened, or if the block raises tarfile.TarError."""
    try:
        raw = file.open("rb")
    except OSError as error:
        raise ArchiveError(f"cannot read {file}: {error.strerror or error}") from error
    with raw:
        if raw.peek(len(_GZIP)).startswith(_GZIP):
            raise ArchiveError(f"{file} is compressed: unpack it first, with gunzip")
        try:
            yield raw
        except tarfile.TarError as error:
            raise _wrong(file, f"is truncated, or was not written by pilotlight export ({error})") from error


def _extract(
    raw: BufferedReader, headers: Iterator[tarfile.TarInfo], folder: Path, records: dict[str, FileRecord], file: Path
) -> None:
    missing = {f"{folder.name}/{name}": record for name, record in records.items()}
    for info in headers:
        record = missing.pop(info.name, None)
        if record is None:
            raise _wrong(file, f"has an unknown or repeated member {info.name!r}")
        if info.size != record.size:
            raise _wrong(file, f"has {info.name} with {info.size:,} bytes instead of {record.size:,}")
        target = folder / info.name.partition("/")[2]
        target.parent.mkdir(exist_ok=True)
        _copy(raw, info.size, target)
    if missing:
        raise _wrong(file, f"lacks {', '.join(sorted(missing)[:3])}")


def _copy(raw: BufferedReader, size: int, target: Path) -> None:
    with target.open("xb") as copy:
        while size:
            block = raw.read(min(size, _BUFFER_BYTES))
            if not block:
                raise tarfile.ReadError("unexpected end of data")
            size -= copy.write(block)


def _wrong(file: Path, problem: str) -> ArchiveError:
    return ArchiveError(f"{file}: the archive {problem}; export it again")


@contextmanager
def _replacing(file: Path) -> Iterator[BufferedWriter]:
    """Yield a temporary file, and rename it to `file` at the end of the block. Raises ArchiveError if writing fails."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            with temporary.open("xb") as raw:
                yield raw
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(temporary, file)
            publish.sync(file.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ArchiveError(f"cannot write {file}: {error.strerror or error}") from error
