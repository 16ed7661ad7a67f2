"""A bucket: what it lists and holds, through the client of object stores, and the client's errors in our words."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib import metadata
from typing import TYPE_CHECKING

from indexer import encodings
from indexer.config import CrawlLimits
from indexer.crawl.answers import media_type
from indexer.decoding import one_line
from indexer.errors import FetchError, SourceError
from indexer.sources.addresses import BucketAddress
from indexer.sources.stored_files import Listing, StoredFile

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

_MAX_OBJECTS = 1_000_000  # of a source
_MAX_SIZE = (1 << 63) - 1  # bytes that SQLite can store
_CHUNK = 1_000  # entries taken from the client at once
_PIECE = 1 << 18  # bytes of a body taken at once
_RETRY: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


@dataclass(frozen=True, slots=True)
class _Store:
    """A kind of store: the variables of its credentials and its place, to be told, and those of its endpoint."""

    client: str
    credentials: str
    place: str
    endpoints: tuple[str, ...]


_STORES = {
    "s3": _Store(
        "S3Store",
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        "AWS_REGION and AWS_ENDPOINT_URL",
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    ),
    "gs": _Store("GCSStore", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_BASE_URL", ("GOOGLE_BASE_URL",)),
    "az": _Store(
        "AzureStore",
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ENDPOINT",
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    ),
}
# how errors of the client begin, with the time that each try took
_REQUEST = re.compile(
    r"Generic \w+ error: |Error performing list request: |Error performing \w+ (?:\S+|REDACTED) in .*? - "
)
_NO_CREDENTIALS = (  # among them addresses where a machine in the cloud is asked for its credentials
    *("169.254.169.254", "169.254.170.2", "/latest/api/token", "computeMetadata", "metadata/identity"),
    *("Account must be specified", "credential error", "Container must be specified"),
)
_REFUSED = re.compile(r"status code: 40[13]\b")  # of a listing, for which the client has no error of its own
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_BODY = re.compile(r":? *<[?\w]")  # of an answer, which may repeat the request
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


def version() -> str:
    """Return the version of the client; empty where the extra is not installed."""
    try:
        return metadata.version("obstore")
    except metadata.PackageNotFoundError:
        return ""


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
        self._address, self._max_bytes = address, limits.max_bytes
        try:
            from obstore import exceptions, store
        except ModuleNotFoundError as error:
            what = "this needs the extra remote: pip install 'pilotlight[remote]'"
            raise SourceError(f"{address.source}: {what}") from error
        self.errors: tuple[type[Exception], ...] = (exceptions.BaseError, OSError)  # of the client
        self._invalid_path = exceptions.InvalidPathError
        client: ClientConfig = {
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=limits.timeout),
            "user_agent": limits.user_agent,
        }
        kind = _STORES[address.scheme]
        # an endpoint without TLS is used only if it is named so
        if any(os.environ.get(variable, "").lower().startswith("http://") for variable in kind.endpoints):
            client["allow_http"] = True
        with self._source_errors():
            self._store = getattr(store, kind.client)(address.bucket, client_options=client, retry_config=_RETRY)

    def files(self) -> Listing:
        """Return the objects below the prefix, or the one of its name. Raises SourceError: they cannot be listed."""
        import obstore

        prefix, found = self._address.prefix or None, Listing()
        with self._source_errors():
            try:
                for chunk in obstore.list(self._store, prefix, chunk_size=_CHUNK):
                    found.add(map(_file, chunk))
                    if len(found) > _MAX_OBJECTS:
                        many = f"more than {_MAX_OBJECTS:,} objects; name a longer prefix"
                        raise SourceError(f"{self._address.source}: {many}")
                if not found and prefix:
                    with suppress(FileNotFoundError):
                        found.add([_file(obstore.head(self._store, prefix))])
            except self._invalid_path as error:  # an empty step, `.`, `..` or a control character
                _, _, name = one_line(str(error).partition("\n")[0]).partition("invalid path: ")
                what = (
                    f"cannot be listed, as it holds an object that cannot be named: {name or 'its name is not valid'}"
                )
                raise SourceError(f"{self._address.source}: {what}; rename it, or name other prefixes") from None
        return found

    def read(self, path: bytes, types: frozenset[str] | None) -> Content | str:
        """Return the content of an object; or its media type, if that is none of `types`.

        Raises:
            FetchError: it is too large, or of an encoding that cannot be undone.
            FileNotFoundError: it is not there any more.
            Exception: one of `errors`: the store does not answer, or refuses it.
        """
        import obstore

        answer = obstore.get(self._store, path.decode("utf-8", "surrogateescape"))
        headers = {str(name).lower(): value for name, value in answer.attributes.items()}
        content_type, charset = media_type(headers.get("content-type", ""))
        if types is not None and content_type not in types:
            return content_type
        body = bytearray()
        for piece in encodings.decoded(map(bytes, answer.stream(_PIECE)), headers.get("content-encoding", "")):
            body += piece
            if len(body) > self._max_bytes:
                raise FetchError(f"larger than {self._max_bytes:,} bytes")
        return Content(bytes(body), content_type, charset, _file(answer.meta).version)

    @contextmanager
    def _source_errors(self) -> Iterator[None]:
        """Turn errors of the client into SourceError."""
        try:
            yield
        except self.errors as error:
            # not chained, as the error may quote a signed request
            raise SourceError(f"{self._address.source}: {_explain(error, self._address)}") from None


def brief(error: Exception) -> str:
    """Return an error of the client in one line, without how long it took."""
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return one_line(error.strerror or str(error))
    text = str(error)
    code = _CODE.search(text)
    return one_line(_BODY.split(_REQUEST.sub("", text.partition("\n")[0]))[0] + (f": {code[1]}" if code else ""))


def _explain(error: Exception, address: BucketAddress) -> str:
    """Return what an error of the client means, and what to do."""
    from obstore import exceptions

    text, said, kind = str(error), brief(error), _STORES[address.scheme]
    is_missing = isinstance(error, FileNotFoundError)
    is_refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError | PermissionError)
    if not is_refused and (any(words in text for words in _NO_BUCKET) or (is_missing and not address.prefix)):
        return f"there is no {'container' if address.scheme == 'az' else 'bucket'} {address.bucket}"
    if not is_refused and not is_missing and any(word in text for word in _NO_CREDENTIALS):
        return f"there are no credentials for {address.scheme}://: set {kind.credentials} ({said})"
    if is_refused or (not is_missing and _REFUSED.search(text.partition("\n")[0])):
        return f"the store does not allow it ({said}): check {kind.credentials}, and what they may list and read"
    if "Received redirect without LOCATION" in said:
        return "the bucket is in another region: set AWS_REGION"
    return f"the store does not answer as it should ({said}): try again later, or check {kind.place}"


def _file(meta: "ObjectMeta") -> StoredFile:
    """Return an object as the client describes it: its version is its ETag, or else when it was last modified."""
    modified: datetime = meta["last_modified"].astimezone(UTC)
    path, size = meta["path"].encode("utf-8", "surrogateescape"), min(meta["size"], _MAX_SIZE)
    version = (meta["e_tag"] or modified.isoformat()).strip('"')
    return StoredFile(path, size, version, format_datetime(modified.replace(microsecond=0), usegmt=True))
