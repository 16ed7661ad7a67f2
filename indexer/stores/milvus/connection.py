"""Calls of Milvus with an end to every wait, and errors that name the address and what to do."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from indexer.errors import IndexerError, IndexMissing, StoreAddressError, StoreRefused, StoreUnreachable
from indexer.stores.milvus.address import MilvusAddress

CONNECTING = 3.0  # seconds
ASKING = 10.0  # of one call that answers a query
_MISSING = (100, 700, 1600)  # codes of Milvus: no such collection, index, alias
_NOT_LOADED = 101
_UNAUTHORISED = (1400, 1401)
_BUSY = (2, 4, 8, 9)  # unavailable, too many requests, rate limit, quota
# gRPC looks for a server that was away after up to two minutes, unless it is told otherwise
_CHANNEL = {"grpc.initial_reconnect_backoff_ms": 200, "grpc.max_reconnect_backoff_ms": 1000}


class NotLoaded(StoreUnreachable):
    """A collection that is not in the memory of Milvus."""


class MilvusConnection:
    """One connection, made with the first call; safe to share between threads, not to be carried over a fork."""

    def __init__(self, address: MilvusAddress, token: str, seconds: Callable[[], float]) -> None:
        """Take the address, credentials, and what says how many seconds the caller has left."""
        self.address = address
        self._token = token
        self._seconds = seconds
        self._lock = threading.Lock()
        self._client: Any = None

    def call(self, method: str, *args: Any, most: float | None = ASKING, **kwargs: Any) -> Any:
        """Call a method of `pymilvus.MilvusClient`.

        Args:
            method: its name.
            args: its arguments.
            most: seconds that it may take, if the caller has so many left; None for as long as the server is at work.
            kwargs: its arguments by name.

        Raises:
            StoreAddressError: the extra is not installed.
            StoreUnreachable: no answer, or not in time.
            StoreRefused: the credentials are wrong, or the server will not do this.
            IndexMissing: there is no such collection or alias.
        """
        client = self._connected()
        from grpc import FutureTimeoutError, RpcError
        from pymilvus.exceptions import MilvusException

        timeout = None if most is None else max(0.001, min(most, self._seconds()))
        try:
            return getattr(client, method)(*args, timeout=timeout, **kwargs)
        except (MilvusException, RpcError, FutureTimeoutError) as error:
            raise self._translated(error, method) from error

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Any:
        try:
            from grpc import FutureTimeoutError, RpcError
            from pymilvus import MilvusClient
            from pymilvus.exceptions import MilvusException
        except ImportError as error:
            raise StoreAddressError(
                f"{self.address} is in Milvus, whose client is not installed: pip install 'pilotlight[milvus]'"
            ) from error
        for name in ("pymilvus", "milvus_lite", "grpc._server"):  # they log whole tracebacks of what is raised, too
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        address = self.address
        try:
            client = MilvusClient(
                address.uri,
                token=self._token,
                db_name=address.database,
                timeout=max(0.001, min(CONNECTING, self._seconds())),
                dedicated=True,
                grpc_options=_CHANNEL,
            )
        except (MilvusException, RpcError, FutureTimeoutError) as error:
            raise self._translated(error, "connect") from error
        # Otherwise it tries again until the time is over, and connects anew while all other threads wait.
        client._handler._on_rpc_error = _give_up
        return client

    def _translated(self, error: Any, method: str) -> IndexerError:
        from grpc import RpcError, StatusCode

        code = error.code() if isinstance(error, RpcError) else getattr(error, "code", None)
        if isinstance(error.__cause__, RpcError):  # connecting says no more than that it failed
            code = error.__cause__.code()
        details = error.details() if isinstance(error, RpcError) else getattr(error, "message", "")
        said = " ".join(str(details or type(error).__name__).split())[:300]
        if code in (StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED, *_UNAUTHORISED):
            return StoreRefused(
                f"{self.address} refuses the credentials ({said}): "
                "set PILOTLIGHT_MILVUS_TOKEN to USER:PASSWORD or to a token that may use it"
            )
        if code in _MISSING:
            return IndexMissing(f"{self.address}: {said}")
        if code == _NOT_LOADED:
            return NotLoaded(f"{self.address}: {said}; try again in a moment")
        if self.address.is_lite and method == "connect":
            return StoreUnreachable(
                f"{self.address} cannot be opened ({said}): is Milvus Lite installed (pip install milvus-lite), "
                "and the file not open in another process?"
            )
        if method == "connect" or code in _BUSY or not isinstance(code, int):
            return StoreUnreachable(
                f"{self.address} does not answer in time ({said}): check the address, and that Milvus runs there"
            )
        return StoreRefused(f"{self.address} refuses to {method.replace('_', ' ')} ({said})")


def _give_up(error: Exception) -> bool:
    raise error
