"""Call a Milvus server with a timeout for every call. The path of its address is the alias of the live generation."""

import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from indexer.errors import IndexerError, IndexMissing, StoreAddressError, StoreRefused, StoreUnreachable
from indexer.generation.manifest import is_generation_id

QUERY_TIMEOUT_S = 10.0
_CONNECT_TIMEOUT_S = 3.0
_LOAD_TIMEOUT_S = 600.0
_PORT = 19530
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FORMS = "use milvus://HOST:19530/NAME or milvuss://HOST:PORT/NAME"
# error codes of Milvus
_MISSING = (100, 700, 1600)  # no such collection, index, alias
_NOT_LOADED = 101
_UNAUTHORISED = (1400, 1401)
_BUSY = (2, 4, 8, 9)  # unavailable, too many requests, rate limit, quota
# By default, gRPC waits up to two minutes before it reconnects.
_CHANNEL = {"grpc.initial_reconnect_backoff_ms": 200, "grpc.max_reconnect_backoff_ms": 1000}


@dataclass(frozen=True, slots=True)
class MilvusAddress:
    """The address of a store, without credentials: as text for messages, and as parts for pymilvus."""

    uri: str
    name: str
    database: str
    shown: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `milvus://HOST:PORT/NAME?database=NAME`, or `milvuss` for TLS; raises StoreAddressError."""
        try:
            url = urlsplit(text)
            port = url.port or _PORT
        except ValueError as error:
            raise StoreAddressError(f"this is not the address of a store ({error}); {_FORMS}") from error
        if url.username is not None or url.password is not None:
            raise StoreAddressError(
                f"the address of the store at {url.hostname} contains credentials, which would appear in logs: "
                "remove them, and set PILOTLIGHT_MILVUS_TOKEN to USER:PASSWORD or to a token"
            )
        options = parse_qs(url.query)
        database = options.pop("database", [""])[-1]
        folder, _, name = url.path.rpartition("/")
        is_milvus = url.scheme in ("milvus", "milvuss") and bool(url.hostname) and not folder
        if not is_milvus or url.fragment or options or not _NAME.fullmatch(name):
            raise StoreAddressError(
                f"{text} is not the address of a store: {_FORMS}; NAME has letters, digits and _, and no digit first"
            )
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        return cls(f"{'https' if url.scheme == 'milvuss' else 'http'}://{host}:{port}", name, database, text)

    def __str__(self) -> str:
        return self.shown

    def collection(self, generation_id: str) -> str:
        """Return the name of the collection with the passages of a generation."""
        return f"{self.name}_{generation_id.replace('-', '_')}"

    def generation_of(self, collection: str) -> str | None:
        """Return the id of the generation that a collection belongs to, or None for foreign collections."""
        day, mark, random = collection.removeprefix(f"{self.name}_").partition("_")
        id = f"{day}-{random}"
        return id if mark and is_generation_id(id) and self.collection(id) == collection else None


def records_of(collection: str) -> str:
    """Return the name of the collection with the manifest of a generation."""
    return f"{collection}_records"


class _NotLoaded(StoreUnreachable):
    """A collection that Milvus has not loaded into memory."""


class MilvusConnection:
    """One connection, opened by the first call; safe to share between threads, but not across a fork."""

    def __init__(self, address: MilvusAddress, token: str, seconds_left: Callable[[], float]) -> None:
        self.address = address
        self._token = token
        self._seconds_left = seconds_left
        self._lock = threading.Lock()
        self._client: Any = None

    def call(self, method: str, *args: Any, timeout: float | None = QUERY_TIMEOUT_S, **kwargs: Any) -> Any:
        """Call a method of `pymilvus.MilvusClient`; `timeout` is in seconds, or None to wait until the server is done.

        Raises:
            StoreAddressError: the extra is not installed.
            StoreUnreachable: no answer in time.
            StoreRefused: the credentials are wrong, or the server refuses the call.
            IndexMissing: there is no such collection or alias.
        """
        try:
            from grpc import FutureTimeoutError, RpcError
            from pymilvus.exceptions import MilvusException
        except ImportError as error:
            raise StoreAddressError(
                f"{self.address} is in Milvus, whose client is not installed: pip install 'pilotlight[milvus]'"
            ) from error
        step = "connect"
        try:
            with self._lock:
                self._client = client = self._client or self._connect()
            step = method
            return getattr(client, method)(*args, timeout=self._limited(timeout), **kwargs)
        except (MilvusException, RpcError, FutureTimeoutError) as error:
            raise self._translated(error, step) from error

    def _limited(self, timeout: float | None) -> float | None:
        return None if timeout is None else max(0.001, min(timeout, self._seconds_left()))

    def read(self, method: str, collection: str, **options: Any) -> Any:
        """Call `query` or `search` of a collection, which Milvus first loads into memory if necessary."""
        try:
            return self.call(method, collection, **options)
        except _NotLoaded:
            self.call("load_collection", collection, timeout=_LOAD_TIMEOUT_S)
            return self.call(method, collection, **options)

    def rows(self, collection: str, test: str, fields: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Return the matching rows of a collection, unordered. Raises as `call` does."""
        return list(self.read("query", collection, filter=test, output_fields=list(fields), **options))

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self) -> Any:
        from pymilvus import MilvusClient

        for name in ("pymilvus", "grpc._server"):  # both log the tracebacks of errors that they raise
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        client = MilvusClient(
            self.address.uri,
            token=self._token,
            db_name=self.address.database,
            timeout=self._limited(_CONNECT_TIMEOUT_S),
            dedicated=True,
            grpc_options=_CHANNEL,
        )

        def give_up(error: Exception) -> bool:
            raise error

        # By default, the client retries until the timeout, and blocks all other threads while it reconnects.
        client._handler._on_rpc_error = give_up
        return client

    def _translated(self, error: Any, method: str) -> IndexerError:
        from grpc import RpcError, StatusCode

        code = error.code() if isinstance(error, RpcError) else getattr(error, "code", None)
        if isinstance(error.__cause__, RpcError):  # connection errors have no code themselves
            code = error.__cause__.code()
        details = error.details() if isinstance(error, RpcError) else getattr(error, "message", "")
        message = " ".join(str(details or type(error).__name__).split())[:300]
        if code in (StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED, *_UNAUTHORISED):
            return StoreRefused(
                f"{self.address} refuses the credentials ({message}): "
                "set PILOTLIGHT_MILVUS_TOKEN to USER:PASSWORD or to a token that may use it"
            )
        if code in _MISSING:
            return IndexMissing(f"{self.address}: {message}")
        if code == _NOT_LOADED:
            return _NotLoaded(f"{self.address}: {message}; try again in a moment")
        if method == "connect" or code in _BUSY or not isinstance(code, int):
            return StoreUnreachable(
                f"{self.address} does not answer in time ({message}): check the address, and that Milvus runs there"
            )
        return StoreRefused(f"{self.address} refuses to {method.replace('_', ' ')} ({message})")
