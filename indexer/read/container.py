"""Unpack archives of documents (zip, mbox, tar, and tar compressed with gzip, bzip2 or xz), and attachments of mails.

Every file in an archive is a separate page, such as `file:///folder/archive.zip!/notes.md`. Therefore, unchanged files
are not read again, and a damaged file does not affect the others. Archives within archives are not opened.
"""

import bz2
import gzip
import io
import lzma
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import zip_longest
from posixpath import normpath
from typing import IO, BinaryIO, cast
from urllib.parse import quote

from indexer.errors import ParseError
from indexer.read.access_list import UNSUPPORTED_LIST, closed_paths, has_list
from indexer.read.formats import (
    ATTACHMENTS,
    CONTAINER,
    MAIL,
    OCR_OFF,
    content_type_of,
    reader_of,
    refusal_of,
    type_by_content,
)
from indexer.read.reader_process import borrowed
from indexer.records import Failure, Item, Page, Skip
from indexer.text.charsets import decode_names

_MAX_MEMBERS = 10_000
_MAX_GLOBAL_HEADERS = 1_000
_MAX_TOTAL_BYTES = 200_000_000
_MAX_RATIO = 200  # decompressed bytes per compressed byte; 3 to 20 are usual for text
_ALWAYS_ALLOWED_BYTES = 10_000_000
_MAX_NAME_LENGTH = 1_000
_UTF8_FLAG = 0x800
_DOS_SYSTEMS = (0, 10, 14)  # FAT, NTFS and VFAT, in the field `create_system` of zip members
_CHUNK_BYTES = 1 << 16
_NESTED = "a nested archive"
_MAIL_BEGINS = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n(?=[\w-]+:)")
_QUOTED_BEGIN = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_COMPRESSED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
DAMAGED: tuple[type[Exception], ...] = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, IndexError,
    NotImplementedError, OverflowError, tarfile.TarError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive, or the reason why the file is skipped or cannot be read."""

    name: str
    body: bytes = b""
    skipped: str = ""
    failed: str = ""


def with_members(item: Item, max_bytes: int, no_images: str = OCR_OFF) -> Iterator[Item]:
    """Yield an item. If it is a mail, also yield its attachments. If it is an archive, yield its files instead.

    A damaged archive or a decompression bomb becomes a `Failure`.

    Args:
        item: an item of a source.
        max_bytes: size limit of an unpacked file. A larger file becomes a `Failure`.
        no_images: the reason not to read images, or "" to read them.
    """
    reader = reader_of(item.content_type) if isinstance(item, Page) else None
    if reader != CONTAINER:
        yield item
    if isinstance(item, Page) and reader in (CONTAINER, MAIL):
        yield from expand(item, max_bytes, no_images)


def expand(page: Page, max_bytes: int, no_images: str = OCR_OFF) -> Iterator[Item]:
    """Yield the files in an archive or the attachments of a mail. See `with_members` for the arguments."""
    is_mail = reader_of(page.content_type) == MAIL
    reader, limits = ATTACHMENTS if is_mail else CONTAINER, f"{max_bytes}\n{no_images}"
    urls: set[str] = set()
    try:
        with borrowed() as process, closing(process.ask(reader, limits, page.body)) as answers:
            for answer, body in answers:
                name = str(answer.get("name"))
                url = f"{page.url}!/{quote(name, safe='/', errors='replace')}"
                content_type = type_by_content(name, body)
                if skipped := answer.get("skipped"):
                    yield Skip(url, str(skipped))
                elif failed := answer.get("failed"):
                    yield Failure(url, str(failed))
                elif content_type is None:
                    yield Skip(url, refusal_of(name, is_by_name=True))
                elif url in urls:
                    yield Skip(url, "already read")
                else:
                    urls.add(url)
                    member = replace(page, url=url, body=body, content_type=content_type, content_hash="")
                    if not is_mail:
                        yield from with_members(member, max_bytes, no_images)
                    elif reader_of(content_type) == CONTAINER:
                        yield Skip(url, _NESTED)
                    else:
                        yield member
    except ParseError as error:
        yield Failure(page.url, f"its attachments cannot be read: {error}" if is_mail else str(error))


class UnpackBudget:
    """Limits the number and the total size of the files that are unpacked from one archive of `size` bytes."""

    def __init__(self, size: int) -> None:
        self._max_bytes = min(_MAX_TOTAL_BYTES, max(_ALWAYS_ALLOWED_BYTES, size * _MAX_RATIO))
        self._bytes = self._files = 0

    def spend(self, count: int) -> None:
        """Count unpacked bytes. Raises ParseError if there are too many in total."""
        self._bytes += count
        if self._bytes > self._max_bytes:
            raise ParseError(f"more than {self._max_bytes:,} bytes: the archive may be a decompression bomb")

    def count_file(self) -> None:
        """Count an unpacked file. Raises ParseError if there are too many."""
        self._files += 1
        if self._files > _MAX_MEMBERS:
            raise ParseError(f"more than {_MAX_MEMBERS:,} files in the archive")


class _Metered:
    """A file whose bytes are counted by an `UnpackBudget` when they are read."""

    def __init__(self, file: IO[bytes], budget: UnpackBudget) -> None:
        self._file = file
        self._budget = budget

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._budget.spend(len(data))
        return data


def members(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    """Yield the files in an archive, in a reader process. Raises ParseError if the archive is damaged or a bomb."""
    try:
        reader = next((reader for magic, reader in _READERS if body.startswith(magic)), _tar)
        yield from reader(body, max_bytes, no_images)
    except DAMAGED as error:
        raise ParseError("truncated or damaged archive") from error


def _zip_members(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    budget = UnpackBudget(len(body))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        infos = archive.infolist()
        raw_names = [_raw_name(info) for info in infos]
        names = decode_names(raw_names, is_dos=any(info.create_system in _DOS_SYSTEMS for info in infos))
        lists = closed_paths(normpath(name).lstrip("/") for name in names)
        for info, name in zip(infos, names, strict=True):
            budget.count_file()
            if name.endswith("/"):
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                yield Member(name, skipped="symbolic link")
            elif reason := skip_reason(name, no_images, lists):
                yield Member(name, skipped=reason)
            elif info.flag_bits & 1:
                yield Member(name, failed="encrypted")
            else:
                try:
                    with archive.open(info) as file:
                        yield _read_member(name, _Metered(file, budget), max_bytes)
                except DAMAGED:
                    yield Member(name, failed="damaged in the archive")


def _mails(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    budget = UnpackBudget(len(body))
    begins = list(_MAIL_BEGINS.finditer(body))
    for number, (begin, after) in enumerate(zip_longest(begins, begins[1:]), 1):
        budget.count_file()
        mail = _QUOTED_BEGIN.sub(b"", body[begin.end() : after.start() if after else len(body)])
        yield _read_member(f"{number}.eml", io.BytesIO(mail), max_bytes)


_READERS = ((b"PK", _zip_members), (b"From ", _mails))


def _raw_name(info: zipfile.ZipInfo) -> bytes:
    """Return the encoded name of a zip member, from its extra field for UTF-8 names or else from its header."""
    name = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8_FLAG else "cp437")
    begin = b"\1" + struct.pack("<I", zlib.crc32(name))  # field version 1, checksum of the name in the header
    head, _, rest = info.extra.partition(begin)
    return rest[: int.from_bytes(head[-2:], "little") - len(begin)] if head[-4:-2] == b"up" and rest else name


def _tar(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    entries = (info.name + "/" * info.isdir() for info, _ in _tar_members(body))
    names = decode_names([name.encode("utf-8", "surrogateescape") for name in entries], is_dos=False)
    # read all names first, because an access list may come after the files that it protects
    lists = closed_paths(normpath(name).lstrip("/") for name in names)
    for (info, archive), name in zip(_tar_members(body), names, strict=True):
        if info.isdir():
            continue
        reason = "symbolic link, pipe or device" if not info.isreg() else skip_reason(name, no_images, lists)
        content = None if reason else archive.extractfile(info)
        if content is None:
            yield Member(name, skipped=reason or "not a file")
        else:
            yield _read_member(name, content, max_bytes)


def _tar_members(body: bytes) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    budget, raw = UnpackBudget(len(body)), io.BytesIO(body)
    opener = next((opener for magic, opener in _COMPRESSED if body.startswith(magic)), None)
    file = cast(BinaryIO, opener(raw)) if opener else raw
    with file, tarfile.open(fileobj=cast(IO[bytes], _Metered(file, budget)), mode="r|") as archive:
        for info in archive:
            budget.count_file()
            if len(archive.pax_headers) > _MAX_GLOBAL_HEADERS:  # `tarfile` copies these headers for each file
                raise ParseError(f"more than {_MAX_GLOBAL_HEADERS:,} global headers in the archive")
            yield info, archive


def _read_member(name: str, file: IO[bytes] | _Metered, max_bytes: int) -> Member:
    chunks, length = [], 0
    while chunk := file.read(_CHUNK_BYTES):
        length += len(chunk)
        if length > max_bytes:
            return Member(name, failed=f"larger than {max_bytes:,} bytes")
        chunks.append(chunk)
    return Member(name, b"".join(chunks))


def skip_reason(name: str, no_images: str, lists: Collection[str] = ()) -> str:
    """Return the reason not to read a file of an archive, or "" to read it. `lists` are paths from `closed_paths`."""
    steps = name.split("/")
    if len(name) > _MAX_NAME_LENGTH or ":" in steps[0] or not name.isprintable():
        return "not a valid file name"
    if name.startswith("/") or ".." in steps:
        return "a path outside the archive"
    if any(step.startswith(".") and step != "." for step in steps):
        return "hidden"
    if lists and has_list(normpath(name), lists):
        return UNSUPPORTED_LIST
    if refusal := refusal_of(name, no_images):
        return refusal
    return _NESTED if reader_of(content_type_of(name) or "") == CONTAINER else ""
