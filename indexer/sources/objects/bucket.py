"""A bucket as the client of object stores shows it: what it lists, what it holds, and what is wrong, as our errors.

The client cannot name an object with an empty step, `.`, `..` or a control character in its name, and gives nothing of
a listing that has one. So a prefix is listed whole first, and folder by folder where that fails: what cannot be listed
is then no more than the folder of such an object.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, NamedTuple, Self

from indexer import encodings
from indexer.config import CrawlLimits
from indexer.crawl.answers import media_type
from indexer.decoding import one_line
from indexer.errors import FetchError, SourceError
from indexer.sources.listing import Listing
from indexer.sources.objects.address import BucketAddress
from indexer.sources.objects.client import CREDENTIALS, EXTRA, PLACES, Trouble, first_line, open_bucket, trouble

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_MOST = 1_000_000  # objects of a source
_LARGEST = (1 << 63) - 1  # bytes that a listing can say of one
_LISTED = 1_000  # entries taken from the client at once
_PIECE = 1 << 18  # bytes of a body taken at once


class Entry(NamedTuple):
    """An object, as it was when it was listed."""

    path: bytes
    size: int  # bytes
    version: str  # its ETag without quotation marks, or else when it was last modified
    last_modified: str  # as HTTP has dates

    @classmethod
    def of(cls, found: "ObjectMeta") -> Self:
        """Take one from what the client says."""
        modified = found["last_modified"].astimezone(UTC)
        return cls(
            found["path"].encode("utf-8", "surrogateescape"),
            min(found["size"], _LARGEST),
            _version(found["e_tag"], modified),
            format_datetime(modified.replace(microsecond=0), usegmt=True),
        )


class Unlisted(NamedTuple):
    """A folder of which nothing can be known, and why."""

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Content:
    """An object, as it was when it was fetched."""

    body: bytes
    content_type: str
    charset: str | None
    version: str


class Bucket:
    """What one source names; may be used from several threads."""

    def __init__(self, address: BucketAddress, limits: CrawlLimits) -> None:
        """Ask for nothing yet.

        Raises SourceError: the extra is missing, or what the environment says makes no sense.
        """
        self._address = address
        self._max_bytes = limits.max_bytes
        try:
            from obstore import exceptions
        except ModuleNotFoundError as error:
            raise SourceError(f"{address.source}: {EXTRA}") from error
        self._errors = (exceptions.BaseError, OSError)
        self._invalid = exceptions.InvalidPathError
        with self.asking():
            self._store: ObjectStore = open_bucket(
                address.scheme, address.bucket, timeout=limits.timeout, user_agent=limits.user_agent
            )

    def entries(self) -> tuple[Listing[Entry], list[Unlisted]]:
        """Return all objects below the prefix, or the one that has its name, ordered by path; and what is not listed.

        Raises SourceError: they cannot be listed, in part or at all, for a reason that is not the name of one.
        """
        found, unlisted = Listing(Entry, by_path=True), list[Unlisted]()
        with self.asking():
            todo = [self._address.prefix]
            while todo:
                here, before = todo.pop(), len(found)
                try:
                    for block in self._below(here):
                        found.add(block)
                        self._check(len(found))
                    continue
                except self._invalid as error:
                    told = _told(error)
                    found.cut(before)  # it may have given some
                try:
                    objects, folders = self._at(here)
                except self._invalid:
                    reason = f"cannot be listed, as it holds an object that cannot be named: {told}"
                    if here == self._address.prefix:
                        raise SourceError(f"{self._address.source}: {reason}; rename it") from None
                    unlisted.append(Unlisted(here.encode("utf-8", "surrogateescape"), reason))
                    continue
                found.add(objects)
                todo += folders
                self._check(len(found) + len(unlisted))
            if not found and not unlisted and self._address.prefix:
                found.add(self._single())
        return found, unlisted

    def read(self, entry: Entry, types: frozenset[str] | None) -> Content | str:
        """Return the content of an object; or its media type, if that is none of `types`, where they are given.

        Raises:
            FetchError: it is too large, or encoded in a way that cannot be undone.
            FileNotFoundError: it is not there any more.
            obstore.exceptions.BaseError, OSError: the store does not give it.
        """
        import obstore

        path = entry.path.decode("utf-8", "surrogateescape")
        got = obstore.get(self._store, path)
        said = {str(name).lower(): value for name, value in got.attributes.items()}
        content_type, charset = media_type(said.get("content-type", ""))
        if types is not None and content_type not in types:
            return content_type
        body = bytearray()
        for piece in encodings.decoded(map(bytes, got.stream(_PIECE)), said.get("content-encoding", "")):
            body += piece
            if len(body) > self._max_bytes:
                raise FetchError(f"larger than {self._max_bytes:,} bytes")
        modified = got.meta["last_modified"].astimezone(UTC)
        return Content(bytes(body), content_type, charset, _version(got.meta["e_tag"], modified))

    def is_trouble(self, error: Exception) -> bool:
        """Return whether an error is one of the client's."""
        return isinstance(error, self._errors)

    def said(self, error: Exception) -> str:
        """Return what an error of the client says, in one line."""
        return one_line(first_line(error))

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Turn what the store has against a request into SourceError."""
        address = self._address
        try:
            yield
        except self._errors as error:
            kind, said = trouble(error), self.said(error)
            where = CREDENTIALS[address.scheme]
            if kind is Trouble.NO_BUCKET or (kind is Trouble.MISSING and not address.prefix):
                what = "container" if address.scheme == "az" else "bucket"
                told = f"there is no {what} {address.bucket}"
            elif kind is Trouble.NO_CREDENTIALS:
                told = f"there are no credentials for {address.scheme}://: set {where} ({said})"
            elif kind is Trouble.REFUSED:
                told = f"the store does not allow it ({said}): check {where}, and what they may list and read"
            elif "Received redirect without LOCATION" in said:
                told = "the bucket is in another region: set AWS_REGION"
            else:
                places = PLACES[address.scheme]
                told = f"the store does not answer as it should ({said}): try again later, or check {places}"
            raise SourceError(f"{address.source}: {told}") from None  # what it quotes may be a request that is signed

    def _below(self, folder: str) -> Iterator[list[Entry]]:
        import obstore

        for block in obstore.list(self._store, folder or None, chunk_size=_LISTED):
            yield [Entry.of(one) for one in block]

    def _at(self, folder: str) -> tuple[list[Entry], list[str]]:
        """Objects and folders that are in a folder, and not in one of those."""
        import obstore

        listed = obstore.list_with_delimiter(self._store, folder or None)
        return [Entry.of(one) for one in listed["objects"]], list(listed["common_prefixes"])

    def _single(self) -> list[Entry]:
        import obstore

        try:
            return [Entry.of(obstore.head(self._store, self._address.prefix))]
        except FileNotFoundError:
            return []

    def _check(self, count: int) -> None:
        if count > _MOST:
            raise SourceError(f"{self._address.source}: more than {_MOST:,} objects; name a longer prefix")


def _version(etag: str | None, modified: datetime) -> str:
    return (etag or modified.isoformat()).strip('"')


def _told(error: Exception) -> str:
    """The name in question, from what the client says of it."""
    _, _, said = one_line(str(error).partition("\n")[0]).partition("invalid path: ")
    return said or "its name is not valid"
