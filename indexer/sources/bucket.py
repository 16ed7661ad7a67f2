"""Read the objects of a bucket. An object whose ETag is the same as in the previous build is not fetched again."""

import asyncio
import errno
import os
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from indexer.crawl.http_response import parse_content_type
from indexer.errors import FetchError, SourceError
from indexer.network.http import ENVIRONMENT, decode_limited
from indexer.network.urls import BucketAddress
from indexer.read.access_list import closed_paths
from indexer.read.container import with_members
from indexer.read.formats import CONTENT_TYPES, content_type_of
from indexer.records import Failure, Item, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.stored_files import StoredFile, StoredFiles, listing
from indexer.text.cleaning import one_line

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

# Reading ends with an error after this number of consecutive failed objects, or this total time of failed requests.
_MAX_FAILURES, _MAX_FAILED_SECONDS = 20, 7_200.0
_LISTING_SECONDS = 600.0
_MAX_ERROR_CHARACTERS = 10_000
_LISTING_ENTRIES, _MAX_RESPONSE_BYTES = 1_000, 128_000_000
_POLL_SECONDS = 0.05
_BUFFER_BYTES = 1 << 18
_Result = TypeVar("_Result")
_RETRY: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


class _Store(NamedTuple):
    """A storage service: the class of its client, and environment variables for its credentials and endpoint."""

    client_class: str
    credentials: str
    endpoint: str
    variables: str


_STORES = {
    "s3": _Store("S3Store", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_REGION and AWS_ENDPOINT_URL",
                 "AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL AWS_ENDPOINT"),
    "gs": _Store("GCSStore", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_BASE_URL", "GOOGLE_BASE_URL"),
    "az": _Store("AzureStore", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT",
                 "AZURE_STORAGE_ENDPOINT AZURE_ENDPOINT"),
}  # fmt: skip
# prefixes of client errors, which are removed because they contain durations
_REQUEST = re.compile(
    r"Generic \w+ error: |Error performing list request: |Error performing \w+ (?:\S+|REDACTED) in .*? - "
)
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_BODY = re.compile(r":? *<[?\w]")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


class Bucket:
    """Reads the objects below a prefix, or one object. Credentials and endpoint come from environment variables."""

    def __init__(self, context: SourceContext) -> None:
        """Create the client of the storage service. Raises SourceError if its package or a setting is missing."""
        self._context, self._limits = context, context.limits
        address = self._address = BucketAddress.read(context.source)
        try:
            from obstore import exceptions, store
        except ModuleNotFoundError as error:
            hint = "this needs the extra remote: pip install 'pilotlight[remote]'"
            raise SourceError(f"{address.source}: {hint}") from error
        self._errors: tuple[type[Exception], ...] = (exceptions.BaseError, OSError)
        self._failed_seconds = 0.0
        self._closed_above = frozenset[str]()
        client: ClientConfig = {
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=self._limits.timeout),
            "user_agent": self._limits.user_agent,
        }
        if not self._limits.http_proxy:  # this unused proxy overrides proxies in environment variables
            client |= {"proxy_url": "http://localhost", "proxy_excludes": "*,0.0.0.0/0,::/0"}
        elif self._limits.http_proxy != ENVIRONMENT:
            client |= {"proxy_url": self._limits.http_proxy, "proxy_excludes": "localhost,127.0.0.0/8,::1"}
        kind = _STORES[address.scheme]
        # permit http only if an environment variable contains an http endpoint
        if any(os.environ.get(variable, "").lower().startswith("http://") for variable in kind.variables.split()):
            client["allow_http"] = True
        with self._source_errors():
            self._store = getattr(store, kind.client_class)(address.bucket, client_options=client, retry_config=_RETRY)

    def items(self) -> Generator[Item, None, None]:
        """List all objects, then yield the pages in each object. Raises SourceError if the bucket cannot be read.

        If a single object cannot be read, yield its records from the previous build.
        """
        context, source, manifest = self._context, self._context.source, self._context.earlier.manifest
        with self._source_errors(), closing(self._list()) as batches:
            listed = listing(batches)
        if not listed and (manifest is None or source not in manifest.sources):
            raise SourceError(f"{source}: there are no objects with this name or prefix")
        root = f"{self._address.scheme}://{self._address.bucket}"
        self._files = StoredFiles(context, listed, root=root, closed=self._closed_above)
        selected = partial(self._files.select, has_media_types=True)
        sizes = [file.size for file in selected() if isinstance(file, StoredFile)]
        if sum(sizes) > self._limits.max_total_bytes:
            raise SourceError(f"{source}: larger than {self._limits.max_total_bytes:,} bytes")
        context.report_due(len(sizes))
        with closing(self._read_ahead(selected())) as items:
            for item in items:
                yield from with_members(item, self._limits.max_bytes, context.no_images)

    def _list(self) -> Generator[list[StoredFile], None, None]:
        """Yield the objects in the folder `prefix`, or the object with this name. Collect the access lists above it."""
        import obstore

        prefix, is_empty = self._address.prefix, True
        stream = obstore.list(self._store, prefix or None, chunk_size=_LISTING_ENTRIES)
        end = time.monotonic() + _LISTING_SECONDS
        with asyncio.Runner() as runner:
            while (chunk := runner.run(_bounded(partial(anext, stream, None), end))) is not None:
                is_empty = is_empty and not chunk
                yield [*map(_file, chunk)]
            for folder in ["", *accumulate(f"{step}/" for step in prefix.split("/")[:-1])] if prefix else []:
                request = partial(obstore.list_with_delimiter_async, self._store, folder or None)
                try:
                    objects = [*map(_file, runner.run(_bounded(request, end))["objects"])]
                except self._errors as error:
                    where = f"{self._address.scheme}://{self._address.bucket}/{folder}"
                    raise SourceError(
                        f"the folder {where} above it may have an access list, but cannot be listed ({_brief(error)}): "
                        "permit listing with these credentials"
                    ) from None
                self._closed_above |= closed_paths(file.name for file in objects if "/" not in file.name[len(folder) :])
                yield [file for file in objects if is_empty and file.path == prefix.encode("utf-8", "surrogateescape")]

    def _read_ahead(self, files: Iterable[StoredFile | Skip | Failure]) -> Generator[Item, None, None]:
        """Yield the pages in each object in order, while the next objects are fetched."""
        concurrency, failures = self._limits.concurrency, 0
        ahead: deque[Future[tuple[list[Item], str]] | list[Item]] = deque()
        with ThreadPoolExecutor(concurrency, thread_name_prefix="objects") as pool:
            try:
                for file in chain(files, repeat(None, concurrency + 1)):  # each None waits for one of the last objects
                    if isinstance(file, StoredFile):
                        ahead.append([*self._files.unchanged(file)] or pool.submit(self._fetch, file))
                    elif file is not None:
                        ahead.append([file])
                    if not ahead or (file is not None and len(ahead) <= concurrency):
                        continue
                    items = ahead.popleft()
                    if isinstance(items, Future):
                        items, error = items.result()
                        failures = failures + 1 if error else 0
                        if failures >= _MAX_FAILURES or self._failed_seconds > _MAX_FAILED_SECONDS:
                            problem = f"too many objects could not be read ({error})"
                            raise SourceError(f"{self._context.source}: {problem}")
                    yield from items
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, file: StoredFile) -> tuple[list[Item], str]:
        """Return the pages of an object and "". After a temporary error, return previous records and the message."""
        url, began = self._files.url(file.path), time.monotonic()
        try:
            return [self._read(file)], ""
        except FetchError as error:
            return [Failure(url, str(error))], ""
        except FileNotFoundError:
            return [Skip(url, "missing: it was removed after the listing, or its name ends with a slash")], ""
        except self._errors as error:
            reason = _brief(error)
            self._failed_seconds += time.monotonic() - began
            return [*self._files.records_after_failure(file.path, reason)] or [Failure(url, reason)], reason

    def _read(self, file: StoredFile) -> Page | Skip:
        """Fetch an object. Raises FetchError if its content is damaged or too large, or an error of the client."""
        import obstore

        answer = obstore.get(self._store, file.path.decode("utf-8", "surrogateescape"))
        headers = {str(name).lower(): value for name, value in answer.attributes.items()}
        content_type, charset = parse_content_type(headers.get("content-type", ""))
        if content_type_of(file.name) is None and content_type not in CONTENT_TYPES:
            return Skip(self._files.url(file.path), f"media type {content_type or 'unknown'} is not read")
        chunks = map(bytes, answer.stream(_BUFFER_BYTES))
        body = decode_limited(chunks, headers.get("content-encoding", ""), self._limits.max_bytes)
        fetched = file._replace(version=_file(answer.meta).version)
        return self._files.page(fetched, body, content_type, charset)

    @contextmanager
    def _source_errors(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            raise SourceError(f"{self._address.source}: {error}") from None
        except TimeoutError:
            raise SourceError(
                f"{self._address.source}: cannot be listed within {_LISTING_SECONDS:,.0f} seconds"
            ) from None
        except self._errors as error:
            # the original error is not chained, because it may quote a signed request
            raise SourceError(f"{self._address.source}: {_explain_error(error, self._address)}") from None


async def _bounded(request: Callable[[], Awaitable[_Result]], end: float) -> _Result:
    """Await a response until monotonic time `end`. Raises TimeoutError, or SourceError if the response is too large."""
    limit = _resident() + _MAX_RESPONSE_BYTES
    async with asyncio.timeout(end - time.monotonic()):  # a store may send empty listings forever
        answer = asyncio.ensure_future(request())
        while not (await asyncio.wait([answer], timeout=_POLL_SECONDS))[0]:
            if _resident() > limit:  # the client keeps the complete response in memory
                answer.cancel()
                await asyncio.sleep(_POLL_SECONDS)
                raise SourceError(f"one listing response is larger than {_MAX_RESPONSE_BYTES:,} bytes")
        return answer.result()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _brief(error: Exception) -> str:
    """Return the message of a client error in one line, without durations."""
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return one_line(error.strerror or str(error))
    text = str(error)[:_MAX_ERROR_CHARACTERS]
    code = _CODE.search(text)
    return one_line(_BODY.split(_REQUEST.sub("", text.partition("\n")[0]))[0] + (f": {code[1]}" if code else ""))


def _explain_error(error: Exception, address: BucketAddress) -> str:
    kind, is_missing = _STORES[address.scheme], isinstance(error, FileNotFoundError)
    if any(words in str(error)[:_MAX_ERROR_CHARACTERS] for words in _NO_BUCKET) or (is_missing and not address.prefix):
        return f"there is no {'container' if address.scheme == 'az' else 'bucket'} {address.bucket}"
    variables = f"the credentials ({kind.credentials}) and the endpoint ({kind.endpoint})"
    return f"the store failed ({_brief(error)}): check {variables}, or try again later"


def _file(meta: "ObjectMeta") -> StoredFile:
    """Convert the metadata of an object. The version is the ETag, or the time of the last change if there is none."""
    modified: datetime = meta["last_modified"].astimezone(UTC)
    path, size = meta["path"].encode("utf-8", "surrogateescape"), meta["size"]
    version = (meta["e_tag"] or modified.isoformat()).strip('"')
    refusal = "" if size else "empty"
    return StoredFile(path, size, version, refusal, format_datetime(modified.replace(microsecond=0), usegmt=True))
