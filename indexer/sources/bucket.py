"""A bucket: what it lists and holds, through the client of object stores, and the client's errors in our words.

The client cannot name an object with an empty step, `.`, `..` or a control character in its name, and a listing that
has one fails. So a prefix is listed whole first, and folder by folder where that fails: only the folder of such an
object is then left out.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple, Self

from indexer import encodings
from indexer.config import CrawlLimits
from indexer.crawl.answers import media_type
from indexer.decoding import one_line
from indexer.errors import FetchError, SourceError
from indexer.sources.addresses import BucketAddress
from indexer.sources.stored_files import Listing

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_MAX_OBJECTS = 1_000_000  # of a source
_MAX_SIZE = (1 << 63) - 1  # bytes that SQLite can store
_CHUNK = 1_000  # entries taken from the client at once
_PIECE = 1 << 18  # bytes of a body taken at once
_EXTRA = "this needs the extra remote: pip install 'pilotlight[remote]'"
_CREDENTIALS = {  # variables, by scheme
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_PLACES = {"s3": "AWS_REGION and AWS_ENDPOINT_URL", "gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ENDPOINT"}
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_RETRY: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
# how errors of the client begin, with the time that each try took
_REQUEST = re.compile(
    r"Generic \w+ error: |Error performing list request: |Error performing \w+ (?:\S+|REDACTED) in .*? - "
)
# addresses where a machine in the cloud is asked for its credentials
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "/latest/api/token", "computeMetadata", "metadata/identity")
_REFUSED = re.compile(r"status code: 40[13]\b")  # of a listing, for which the client has no error of its own
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_BODY = re.compile(r":? *<[?\w]")  # of an answer, which may repeat the request
_NO_CREDENTIALS = ("Account must be specified", "credential error", "Container must be specified")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


def version() -> str:
    """Return the version of the client; empty where the extra is not installed."""
    try:
        return metadata.version("obstore")
    except metadata.PackageNotFoundError:
        return ""


class Entry(NamedTuple):
    """An object in a listing."""

    path: bytes
    size: int  # bytes
    version: str  # its ETag without quotation marks, or else when it was last modified
    last_modified: str  # as HTTP has dates

    @classmethod
    def of(cls, meta: "ObjectMeta") -> Self:
        """Return the entry of an object as the client describes it."""
        modified = meta["last_modified"].astimezone(UTC)
        path, size = meta["path"].encode("utf-8", "surrogateescape"), min(meta["size"], _MAX_SIZE)
        last_modified = format_datetime(modified.replace(microsecond=0), usegmt=True)
        return cls(path, size, _version(meta["e_tag"], modified), last_modified)


class Unlisted(NamedTuple):
    """A folder that cannot be listed, and why."""

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Content:
    """An object as it was fetched."""

    body: bytes
    content_type: str
    charset: str | None
    version: str


class Bucket:
    """The bucket of one source, with credentials and endpoint from the environment. Safe to share between threads."""

    def __init__(self, address: BucketAddress, limits: CrawlLimits) -> None:
        """Open the bucket without a request.

        Raises SourceError: the extra is missing, or the environment makes no sense.
        """
        self._address = address
        self._max_bytes = limits.max_bytes
        try:
            from obstore import exceptions
        except ModuleNotFoundError as error:
            raise SourceError(f"{address.source}: {_EXTRA}") from error
        self.errors: tuple[type[Exception], ...] = (exceptions.BaseError, OSError)  # of the client
        self._invalid_path = exceptions.InvalidPathError
        with self._source_errors():
            self._store = _open_store(address, limits)

    def entries(self) -> tuple[Listing[Entry], list[Unlisted]]:
        """Return the objects below the prefix, or the one of its name, ordered by path; and unlisted folders.

        Raises SourceError: they cannot be listed, in part or at all, for another reason than the name of one.
        """
        import obstore

        prefix, found, unlisted = self._address.prefix, Listing(Entry, by_path=True), list[Unlisted]()
        with self._source_errors():
            todo = [prefix]
            while todo:
                folder, size = todo.pop(), len(found)
                try:
                    for chunk in obstore.list(self._store, folder or None, chunk_size=_CHUNK):
                        found.add(map(Entry.of, chunk))
                        self._check_count(len(found))
                    continue
                except self._invalid_path as error:
                    _, _, name = one_line(str(error).partition("\n")[0]).partition("invalid path: ")
                    found.cut(size)  # it may have yielded some
                try:
                    listed = obstore.list_with_delimiter(self._store, folder or None)
                except self._invalid_path:
                    name = name or "its name is not valid"
                    reason = f"cannot be listed, as it holds an object that cannot be named: {name}"
                    if folder == prefix:
                        raise SourceError(f"{self._address.source}: {reason}; rename it") from None
                    unlisted.append(Unlisted(folder.encode("utf-8", "surrogateescape"), reason))
                    continue
                found.add(map(Entry.of, listed["objects"]))
                todo += listed["common_prefixes"]
                self._check_count(len(found) + len(unlisted))
            if not found and not unlisted and prefix:
                with suppress(FileNotFoundError):
                    found.add([Entry.of(obstore.head(self._store, prefix))])
        return found, unlisted

    def read(self, entry: Entry, types: frozenset[str] | None) -> Content | str:
        """Return the content of an object; or its media type, if that is none of `types`.

        Raises:
            FetchError: it is too large, or of an encoding that cannot be undone.
            FileNotFoundError: it is not there any more.
            Exception: one of `errors`: the store does not answer, or refuses it.
        """
        import obstore

        answer = obstore.get(self._store, entry.path.decode("utf-8", "surrogateescape"))
        headers = {str(name).lower(): value for name, value in answer.attributes.items()}
        content_type, charset = media_type(headers.get("content-type", ""))
        if types is not None and content_type not in types:
            return content_type
        body = bytearray()
        for piece in encodings.decoded(map(bytes, answer.stream(_PIECE)), headers.get("content-encoding", "")):
            body += piece
            if len(body) > self._max_bytes:
                raise FetchError(f"larger than {self._max_bytes:,} bytes")
        modified = answer.meta["last_modified"].astimezone(UTC)
        return Content(bytes(body), content_type, charset, _version(answer.meta["e_tag"], modified))

    @contextmanager
    def _source_errors(self) -> Iterator[None]:
        """Turn errors of the client into SourceError."""
        try:
            yield
        except self.errors as error:
            # not chained, as the error may quote a signed request
            raise SourceError(f"{self._address.source}: {_explain(error, self._address)}") from None

    def _check_count(self, count: int) -> None:
        if count > _MAX_OBJECTS:
            raise SourceError(f"{self._address.source}: more than {_MAX_OBJECTS:,} objects; name a longer prefix")


def brief(error: Exception) -> str:
    """Return an error of the client in one line, without how long it took."""
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return one_line(error.strerror or str(error))
    text = str(error)
    code = _CODE.search(text)
    return one_line(_BODY.split(_REQUEST.sub("", text.partition("\n")[0]))[0] + (f": {code[1]}" if code else ""))


def _open_store(address: BucketAddress, limits: CrawlLimits) -> "ObjectStore":
    from obstore.store import AzureStore, GCSStore, S3Store

    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=5),
        "timeout": timedelta(seconds=limits.timeout),
        "user_agent": limits.user_agent,
    }
    # an endpoint without TLS is used only if it is named so
    if any(os.environ.get(variable, "").lower().startswith("http://") for variable in _ENDPOINTS[address.scheme]):
        client["allow_http"] = True
    if address.scheme == "s3":
        return S3Store(address.bucket, client_options=client, retry_config=_RETRY)
    if address.scheme == "gs":
        return GCSStore(address.bucket, client_options=client, retry_config=_RETRY)
    return AzureStore(address.bucket, client_options=client, retry_config=_RETRY)


def _explain(error: Exception, address: BucketAddress) -> str:
    """Return what an error of the client means, and what to do."""
    from obstore import exceptions

    text, said, variables = str(error), brief(error), _CREDENTIALS[address.scheme]
    refused = f"the store does not allow it ({said}): check {variables}, and what they may list and read"
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError):
        return refused
    is_missing = isinstance(error, FileNotFoundError)
    if any(words in text for words in _NO_BUCKET) or (is_missing and not address.prefix):
        return f"there is no {'container' if address.scheme == 'az' else 'bucket'} {address.bucket}"
    if not is_missing and any(word in text for word in (*_METADATA_SERVICES, *_NO_CREDENTIALS)):
        return f"there are no credentials for {address.scheme}://: set {variables} ({said})"
    if not is_missing and _REFUSED.search(text.partition("\n")[0]):
        return refused
    if "Received redirect without LOCATION" in said:
        return "the bucket is in another region: set AWS_REGION"
    return f"the store does not answer as it should ({said}): try again later, or check {_PLACES[address.scheme]}"


def _version(etag: str | None, modified: datetime) -> str:
    return (etag or modified.isoformat()).strip('"')
