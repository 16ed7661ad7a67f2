"""Archives of documents: zip, tar, and tar compressed with gzip, bzip2 or xz; and what comes with e-mail.

Every member becomes a page of its own, `file:///folder/archive.zip!/member`, so that all that is known of pages holds
for it: unchanged ones are not read again, one that is damaged costs itself. Archives inside archives are not opened.
"""

import bz2
import gzip
import io
import lzma
import mimetypes
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from pathlib import PurePosixPath
from typing import IO, BinaryIO, cast
from urllib.parse import quote

from indexer.errors import ParseError
from indexer.read.files.mail import content_of, is_shown, is_signature, parts_of
from indexer.read.formats import ATTACHMENTS, CONTAINER, MAIL, OCR_OFF, content_type_of, reader_of, refusal_of
from indexer.read.office.zipped import DAMAGED
from indexer.read.reader_process import borrowed
from indexer.records import Failure, Item, Page, Skip

_MOST_MEMBERS = 10_000
_LONGEST_TOTAL = 200_000_000  # bytes, decompressed
_HIGHEST_RATIO = 200  # of bytes decompressed to bytes of the archive; of texts it is 3 to 20
_FREE = 10_000_000  # bytes that may be decompressed at any ratio
_LONGEST_NAME = 1_000  # characters
_PIECE = 1 << 16  # bytes read or unpacked at once
_COMPRESSED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_DAMAGED: tuple[type[Exception], ...] = (*DAMAGED, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive, or why it is none to read."""

    name: str
    body: bytes = b""
    skipped: str = ""
    failed: str = ""


def with_parts(item: Item, max_bytes: int, no_images: str = OCR_OFF) -> Iterator[Item]:
    """Yield what a source has found, and what is in it, see `expand`; an archive itself is no document."""
    reader = reader_of(item.content_type) if isinstance(item, Page) else None
    if reader != CONTAINER:
        yield item
    if isinstance(item, Page) and reader in (CONTAINER, MAIL):
        yield from expand(item, max_bytes, no_images)


def expand(page: Page, max_bytes: int, no_images: str = OCR_OFF) -> Iterator[Page | Skip | Failure]:
    """Yield the pages of an archive, or the attachments of an e-mail, in order; a damaged one or a bomb is one failure.

    Members of up to `max_bytes` are read; images are not if `no_images` says why.
    """
    is_mail = reader_of(page.content_type) == MAIL
    reader, limits = ATTACHMENTS if is_mail else CONTAINER, f"{max_bytes}\n{no_images}"
    urls: set[str] = set()
    try:
        with borrowed() as process, closing(process.ask(reader, limits, page.body)) as answers:
            for answer, body in answers:
                name = str(answer.get("name"))
                url = f"{page.url}!/{quote(name, safe='/', errors='replace')}"
                content_type = content_type_of(name)
                if skipped := answer.get("skipped"):
                    yield Skip(url, str(skipped))
                elif failed := answer.get("failed"):
                    yield Failure(url, str(failed))
                elif url in urls or content_type is None:
                    yield Skip(url, "already read")
                else:
                    urls.add(url)
                    member = replace(page, url=url, body=body, content_type=content_type, content_hash="")
                    yield member
                    if not is_mail and reader_of(content_type) == MAIL:
                        yield from expand(member, max_bytes, no_images)
    except ParseError as error:
        yield Failure(page.url, f"what comes with it cannot be read: {error}" if is_mail else str(error))


class _Budget:
    """Bytes and files that may still come out of one archive; raises ParseError when there are none left."""

    def __init__(self, size: int) -> None:
        self._most = min(_LONGEST_TOTAL, max(_FREE, size * _HIGHEST_RATIO))
        self._bytes = self._members = 0

    def spend(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._most:
            raise ParseError(f"more than {self._most:,} bytes in the archive, which may be a bomb")

    def member(self) -> None:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise ParseError(f"more than {_MOST_MEMBERS:,} files in the archive")


class _Metered:
    """A file that may not be read past what the archive may hold; what is passed over counts too."""

    def __init__(self, file: IO[bytes], budget: _Budget) -> None:
        self._file = file
        self._budget = budget

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._budget.spend(len(data))
        return data


def members(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    """Yield the members of an archive; runs in the reader process. For `no_images` see `expand`.

    Raises:
        ParseError: the archive is damaged, encrypted or a bomb.
    """
    budget = _Budget(len(body))
    try:
        yield from (_zip if body.startswith(b"PK") else _tar)(body, max_bytes, budget, no_images)
    except _DAMAGED as error:
        raise ParseError("truncated or damaged archive") from error


def _zip(body: bytes, max_bytes: int, budget: _Budget, no_images: str) -> Iterator[Member]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        for info in archive.infolist():
            budget.member()
            if info.is_dir():
                continue
            name = info.filename
            if stat.S_ISLNK(info.external_attr >> 16):
                yield Member(name, skipped="symbolic link")
            elif reason := unwanted(name, no_images):
                yield Member(name, skipped=reason)
            elif info.flag_bits & 1:
                yield Member(name, failed="encrypted")
            else:
                try:
                    with archive.open(info) as file:
                        yield _read(name, _Metered(file, budget), max_bytes)
                except _DAMAGED:
                    yield Member(name, failed="damaged in the archive")


def _tar(body: bytes, max_bytes: int, budget: _Budget, no_images: str) -> Iterator[Member]:
    raw: BinaryIO = io.BytesIO(body)
    opener = next((opener for magic, opener in _COMPRESSED if body.startswith(magic)), None)
    file = cast(BinaryIO, opener(raw)) if opener else raw
    with file, tarfile.open(fileobj=cast(IO[bytes], _Metered(file, budget)), mode="r|") as archive:
        for info in archive:
            budget.member()
            if info.isdir():
                continue
            reason = "symbolic link, pipe or device" if not info.isreg() else unwanted(info.name, no_images)
            content = None if reason else archive.extractfile(info)
            if content is None:
                yield Member(info.name, skipped=reason or "no file")
            else:
                yield _read(info.name, content, max_bytes)


def _read(name: str, file: IO[bytes] | _Metered, max_bytes: int) -> Member:
    pieces, length = [], 0
    while piece := file.read(_PIECE):
        length += len(piece)
        if length > max_bytes:
            return Member(name, failed=f"larger than {max_bytes:,} bytes")
        pieces.append(piece)
    return Member(name, b"".join(pieces))


def unwanted(name: str, no_images: str) -> str:
    """Say why a member is not read; empty if it is. For `no_images` see `expand`."""
    steps = name.split("/")
    if len(name) > _LONGEST_NAME or "\\" in name or ":" in steps[0] or not name.isprintable():
        return "a name that is not for a file"
    if name.startswith("/") or ".." in steps:
        return "a path that leads out of the archive"
    if any(step.startswith(".") and step != "." for step in steps):
        return "hidden"
    if refusal := refusal_of(name, no_images):
        return refusal
    return "an archive in an archive" if reader_of(content_type_of(name) or "") == CONTAINER else ""


_FORWARDED = "message/rfc822"
_DEEPEST = 10  # messages in messages
_AS_IT_CAME = policy.default.clone(refold_source="none")  # folding a long parameter anew may never end
_TROUBLE = (ValueError, TypeError, IndexError, AttributeError, LookupError)  # what headers make the parser trip over


def attachments(body: bytes, max_bytes: int, no_images: str) -> Iterator[Member]:
    """Yield the attachments of a message, in its order; runs in the reader process. For `no_images` see `expand`.

    Raises:
        ParseError: there is more than an archive may hold.
    """
    budget, names = _Budget(len(body)), set[str]()
    todo: list[tuple[Message, str]] = [(BytesParser(policy=_AS_IT_CAME).parsebytes(body), "")]
    while todo:
        outer, folder = todo.pop()
        for part in _attached(outer):
            budget.member()
            path, number = PurePosixPath(f"{folder}{_file_name(part)}"), 1
            name = str(path)
            while name in names:
                number += 1
                name = str(path.with_name(f"{path.stem}-{number}{path.suffix}"))
            names.add(name)
            inner = _forwarded(part)
            try:
                data = inner.as_bytes() if inner is not None else content_of(part)
            except _TROUBLE:
                yield Member(name, failed="damaged in the message")
                continue
            budget.spend(len(data))
            if reason := unwanted(name, no_images):
                yield Member(name, skipped=reason)
            elif len(data) > max_bytes:
                yield Member(name, failed=f"larger than {max_bytes:,} bytes")
            else:
                yield Member(name, data)
            if inner is not None:
                if folder.count("/") >= _DEEPEST:
                    raise ParseError(f"more than {_DEEPEST} messages in one another")
                todo.append((inner, f"{name}/"))


def _attached(message: Message) -> Iterator[Message]:
    """Yield parts that are neither text of the message, nor parts of another one in it, nor signatures."""
    shown = message.get_body(("plain", "html")) if isinstance(message, EmailMessage) else None
    todo: list[Message] = [message]
    while todo:
        part = todo.pop()
        if part.get_content_maintype() == "multipart":
            todo.extend(reversed(parts_of(part)))
        elif part is not shown and not is_shown(part) and not is_signature(part) and _file_name(part):
            yield part


def _forwarded(part: Message) -> Message | None:
    """Return the message that a part is, also where it was packed like a file, against the rules."""
    parts = parts_of(part) if part.get_content_type() == _FORWARDED else []
    if not parts:
        return None
    packing = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if packing in ("base64", "quoted-printable") and not parts[0].keys():
        parts[0]["Content-Transfer-Encoding"] = packing
        return BytesParser(policy=_AS_IT_CAME).parsebytes(content_of(parts[0]))
    return parts[0]


def _file_name(part: Message) -> str:
    """Name of the file that a part is; one without a name gets that of its kind, and what is no file has none."""
    kind = part.get_content_type()
    try:
        name = PurePosixPath((part.get_filename() or "").replace("\\", "/")).name
        is_file = kind == _FORWARDED or part.get_content_disposition() == "attachment"
    except _TROUBLE:
        name, is_file = "", True
    if kind == _FORWARDED:
        return f"{name.removesuffix('.eml') or 'message'}.eml"
    return name or (f"attachment{mimetypes.guess_extension(kind) or ''}" if is_file else "")


def unpacked(body: bytes) -> bytes:
    """Unpack a document, of one member; raises ParseError if it is damaged, or grows more than archives may."""
    budget, pieces = _Budget(len(body)), []
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        while not stream.eof:
            piece = stream.decompress(body, _PIECE)
            body = stream.unconsumed_tail
            if not piece and not body and not stream.eof:
                raise ParseError("truncated or damaged: it is packed with gzip and ends too soon")
            budget.spend(len(piece))
            pieces.append(piece)
    except zlib.error as error:
        raise ParseError("truncated or damaged: it is not a gzip file") from error
    return b"".join(pieces)
