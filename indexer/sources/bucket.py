"""Pages of the objects of a bucket; an object of the same ETag as in the build before is not fetched again."""

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
from importlib import metadata
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from indexer.crawl.http_response import parse_content_type
from indexer.errors import FetchError, SourceError
from indexer.network import content_codings
from indexer.network.proxies import ENVIRONMENT
from indexer.read.access_list import closed_paths
from indexer.read.container import with_members
from indexer.read.formats import CONTENT_TYPES, content_type_of
from indexer.records import Failure, Item, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import BucketAddress
from indexer.sources.stored_files import StoredFile, StoredFiles, listing
from indexer.text.cleaning import one_line

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

_MAX_FAILURES = 20  # objects in a row that the store does not give, after which it is taken to be down
_LISTING = 600.0  # seconds to list all objects
_MAX_LOST = 7_200.0  # seconds of requests that failed, all together, after which a store is taken to be down
_LONGEST_ERROR = 10_000  # characters read of an error, which may repeat an answer
_CHUNK = 1_000  # entries taken from the client at once
_MAX_ANSWER, _LOOK = 128_000_000, 0.05  # bytes of an answer with these, and seconds between two looks at it
_PIECE = 1 << 18  # bytes of a body taken at once
_Result = TypeVar("_Result")
_RETRY: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}


class _Store(NamedTuple):
    client: str  # name of its class
    credentials: str  # variables, to be told
    place: str
    endpoints: str  # variables


_STORES = {
    "s3": _Store("S3Store", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_REGION and AWS_ENDPOINT_URL",
                 "AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL AWS_ENDPOINT"),
    "gs": _Store("GCSStore", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_BASE_URL", "GOOGLE_BASE_URL"),
    "az": _Store("AzureStore", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT",
                 "AZURE_STORAGE_ENDPOINT AZURE_ENDPOINT"),
}  # fmt: skip
# how errors of the client begin, with the time that each try took
_REQUEST = re.compile(
    r"Generic \w+ error: |Error performing list request: |Error performing \w+ (?:\S+|REDACTED) in .*? - "
)
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_BODY = re.compile(r":? *<[?\w]")  # of an answer, which may repeat the request
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


def version() -> str:
    """Return the version of the client of object stores; empty where the extra is not installed."""
    try:
        return metadata.version("obstore")
    except metadata.PackageNotFoundError:
        return ""


def read_objects(context: SourceContext) -> Generator[Item, None, None]:
    """Read the objects below a prefix, or one of that name.

    All objects are listed before the first is read, so a listing that fails leaves out nothing. Of objects that cannot
    be read this time, the records are yielded.

    Raises SourceError: there is no such bucket or prefix, it may not be listed, or the store does not answer.
    """
    yield from _Bucket(context).items()


class _Bucket:
    """The bucket of one source, with credentials and endpoint from the environment."""

    def __init__(self, context: SourceContext) -> None:
        """Open the bucket without a request; raises SourceError."""
        self._context, self._limits = context, context.limits
        address = self._address = BucketAddress.read(context.source)
        try:
            from obstore import exceptions, store
        except ModuleNotFoundError as error:
            what = "this needs the extra remote: pip install 'pilotlight[remote]'"
            raise SourceError(f"{address.source}: {what}") from error
        self._errors: tuple[type[Exception], ...] = (exceptions.BaseError, OSError)  # of the client
        self._lost = 0.0  # seconds of requests that failed
        self._closed = frozenset[str]()  # paths, by access lists in the folders above the prefix
        client: ClientConfig = {
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=self._limits.timeout),
            "user_agent": self._limits.user_agent,
        }
        if not self._limits.http_proxy:  # or the client reads the environment; `*` is for names, not for addresses
            client |= {"proxy_url": "http://localhost", "proxy_excludes": "*,0.0.0.0/0,::/0"}
        elif self._limits.http_proxy != ENVIRONMENT:
            client |= {"proxy_url": self._limits.http_proxy, "proxy_excludes": "localhost,127.0.0.0/8,::1"}
        kind = _STORES[address.scheme]
        # an endpoint without TLS is used only if it is named so
        if any(os.environ.get(variable, "").lower().startswith("http://") for variable in kind.endpoints.split()):
            client["allow_http"] = True
        with self._source_errors():
            self._store = getattr(store, kind.client)(address.bucket, client_options=client, retry_config=_RETRY)

    def items(self) -> Generator[Item, None, None]:
        """Yield the items of each object. Raises SourceError."""
        context, source, manifest = self._context, self._context.source, self._context.earlier.manifest
        with self._source_errors(), closing(self._list()) as parts:
            listed = listing(parts)
        if not listed and (manifest is None or source not in manifest.sources):
            raise SourceError(f"{source}: there are no objects of this name, or below it")
        root = f"{self._address.scheme}://{self._address.bucket}"
        self._files = StoredFiles(context, listed, root=root, closed=self._closed)
        wanted = partial(self._files.wanted, has_media_types=True)
        sizes = [file.size for file in wanted() if isinstance(file, StoredFile)]
        if sum(sizes) > self._limits.max_total_bytes:
            raise SourceError(f"{source}: larger than {self._limits.max_total_bytes:,} bytes")
        context.report_due(len(sizes))
        with closing(self._read_ahead(wanted())) as items:
            for item in items:
                yield from with_members(item, self._limits.max_bytes, context.no_images)

    def _list(self) -> Generator[list[StoredFile], None, None]:
        """Yield the objects below the prefix, or the one of its name; note what the access lists above it are for."""
        import obstore

        prefix, is_empty = self._address.prefix, True
        stream, end = obstore.list(self._store, prefix or None, chunk_size=_CHUNK), time.monotonic() + _LISTING
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
                        f"{where} above it cannot be listed ({_brief(error)}), and there may be an access list: "
                        "let the credentials list it"
                    ) from None
                names = [file.path.decode("utf-8", "replace") for file in objects]
                self._closed |= closed_paths(name for name in names if "/" not in name[len(folder) :])
                yield [file for file in objects if is_empty and file.path == prefix.encode("utf-8", "surrogateescape")]

    def _read_ahead(self, wanted: Iterable[StoredFile | Skip | Failure]) -> Generator[Item, None, None]:
        """Yield the items of each object in order, while the next ones are fetched."""
        concurrency, failures = self._limits.concurrency, 0
        ahead: deque[Future[tuple[list[Item], str]] | list[Item]] = deque()
        with ThreadPoolExecutor(concurrency, thread_name_prefix="objects") as pool:
            try:
                for file in chain(wanted, repeat(None, concurrency + 1)):  # at the end, those that are under way
                    if isinstance(file, StoredFile):
                        known = self._files.known(file.path, file.version)
                        ahead.append([*known] or pool.submit(self._fetch, file))
                    elif file is not None:
                        ahead.append([file])
                    if not ahead or (file is not None and len(ahead) <= concurrency):
                        continue
                    items = ahead.popleft()
                    if isinstance(items, Future):
                        items, error = items.result()
                        failures = failures + 1 if error else 0
                        if failures >= _MAX_FAILURES or self._lost > _MAX_LOST:
                            many = f"{_MAX_FAILURES} objects in a row, or too many, could not be read ({error})"
                            raise SourceError(f"{self._context.source}: {many}")
                    yield from items
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, file: StoredFile) -> tuple[list[Item], str]:
        """Return the page of an object, why there is none, or its records and an error that may pass."""
        url, began = self._files.url(file.path), time.monotonic()
        try:
            return [self._read(file)], ""
        except FetchError as error:
            return [Failure(url, str(error))], ""
        except FileNotFoundError:
            return [Skip(url, "not there under this name: it was removed meanwhile, or ends with a slash")], ""
        except self._errors as error:
            reason = _brief(error)
            self._lost += time.monotonic() - began
            return [*self._files.kept(file.path, reason)] or [Failure(url, reason)], reason

    def _read(self, file: StoredFile) -> Page | Skip:
        """Fetch an object. Raises FetchError, FileNotFoundError or another error of the client."""
        import obstore

        answer = obstore.get(self._store, file.path.decode("utf-8", "surrogateescape"))
        headers = {str(name).lower(): value for name, value in answer.attributes.items()}
        content_type, charset = parse_content_type(headers.get("content-type", ""))
        if content_type_of(file.path.decode("utf-8", "replace")) is None and content_type not in CONTENT_TYPES:
            return Skip(self._files.url(file.path), f"media type {content_type or 'unknown'} is not read")
        parts = map(bytes, answer.stream(_PIECE))
        body = content_codings.decode_limited(parts, headers.get("content-encoding", ""), self._limits.max_bytes)
        found = file._replace(version=_file(answer.meta).version)
        return self._files.page(found, body, content_type, charset)

    @contextmanager
    def _source_errors(self) -> Iterator[None]:
        """Turn errors of the client into SourceError."""
        try:
            yield
        except SourceError as error:
            raise SourceError(f"{self._address.source}: {error}") from None
        except TimeoutError:
            raise SourceError(f"{self._address.source}: cannot be listed within {_LISTING:,.0f} seconds") from None
        except self._errors as error:
            # not chained, as the error may quote a signed request
            raise SourceError(f"{self._address.source}: {_explain(error, self._address)}") from None


async def _bounded(request: Callable[[], Awaitable[_Result]], end: float) -> _Result:
    """Send a request, and wait until a time of the monotonic clock. Raises SourceError: its answer is too large."""
    most = _resident() + _MAX_ANSWER
    async with asyncio.timeout(end - time.monotonic()):  # a store may answer with empty pages for ever
        answer = asyncio.ensure_future(request())
        while not (await asyncio.wait([answer], timeout=_LOOK))[0]:
            if _resident() > most:  # the client reads an answer whole, however long it is
                answer.cancel()
                await asyncio.sleep(_LOOK)  # in which the client lets go of it
                raise SourceError(f"an answer to its listing is larger than {_MAX_ANSWER:,} bytes")
        return answer.result()


def _resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _brief(error: Exception) -> str:
    """Return an error of the client in one line, without how long it took."""
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return one_line(error.strerror or str(error))
    text = str(error)[:_LONGEST_ERROR]
    code = _CODE.search(text)
    return one_line(_BODY.split(_REQUEST.sub("", text.partition("\n")[0]))[0] + (f": {code[1]}" if code else ""))


def _explain(error: Exception, address: BucketAddress) -> str:
    """Return what an error of the client means, and what to do."""
    kind, is_missing = _STORES[address.scheme], isinstance(error, FileNotFoundError)
    if any(words in str(error)[:_LONGEST_ERROR] for words in _NO_BUCKET) or (is_missing and not address.prefix):
        return f"there is no {'container' if address.scheme == 'az' else 'bucket'} {address.bucket}"
    places = f"the credentials ({kind.credentials}) and the endpoint ({kind.place})"
    return f"the store does not answer as it should ({_brief(error)}): check {places}, or try again later"


def _file(meta: "ObjectMeta") -> StoredFile:
    """Return an object as the client describes it: its version is its ETag, or else when it was last modified."""
    modified: datetime = meta["last_modified"].astimezone(UTC)
    path, size = meta["path"].encode("utf-8", "surrogateescape"), meta["size"]
    version = (meta["e_tag"] or modified.isoformat()).strip('"')
    refusal = "" if size else "empty, as what marks a folder is"
    return StoredFile(path, size, version, refusal, format_datetime(modified.replace(microsecond=0), usegmt=True))
