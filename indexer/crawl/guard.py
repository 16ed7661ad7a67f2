"""Open the TCP connections of the crawler, and refuse private IP addresses.

A host name is resolved only once, because a second look-up could return an address that was not checked.
"""

import ipaddress
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Any
from weakref import WeakSet

import httpcore

from indexer.errors import NotWanted

_GLOBAL_UNICAST = IPv6Network("2000::/3")
# `is_global` accepts these networks, although they are not public or their addresses contain IPv4 addresses.
_EXCLUDED_NETWORKS = [*map(ipaddress.ip_network, "192.88.99.0/24 2001::/23 2001:db8::/32 2002::/16 3fff::/20".split())]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is public and unicast."""
    if address.is_multicast or address.is_reserved or any(address in network for network in _EXCLUDED_NETWORKS):
        return False
    return address.is_global and (isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST)


def resolve_checked(host: str, port: int, *, allow_private: bool | tuple[str, ...]) -> list[str]:
    """Return the IP addresses of a host.

    Args:
        allow_private: True permits all private addresses, a tuple those in its networks, such as `10.0.0.0/8`.

    Raises:
        NotWanted: an address is not public, and `allow_private` does not permit it.
        OSError: the host name cannot be resolved.
    """
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if allow_private is True:
        return addresses
    networks = [ipaddress.ip_network(network) for network in allow_private or ()]
    for text in addresses:
        address = ipaddress.ip_address(text)
        if not is_public(address) and not any(address in network for network in networks):
            raise NotWanted(f"{host} has the address {text}, which is not public; allow it with --allow-private")
    return addresses


class _Deadline(threading.local):
    at = float("inf")  # monotonic time of this thread's deadline


class GuardedBackend(httpcore.NetworkBackend):
    """Opens TCP connections only to permitted addresses. Reads and writes time out at the deadline of their thread."""

    def __init__(self, *, allow_private: bool | tuple[str, ...], deadline: _Deadline | None = None) -> None:
        self.allow_private = allow_private
        self._plain = httpcore.SyncBackend()
        self.deadline = deadline or _Deadline()
        self._lock = threading.Lock()
        self._open = WeakSet[_Stream]()
        self._is_aborted = False

    def remaining(self, timeout: float | None = None) -> float:
        """Return the seconds until this thread's deadline, at most `timeout`. Raises ReadTimeout after the deadline."""
        seconds = self.deadline.at - time.monotonic()
        if seconds <= 0:
            raise httpcore.ReadTimeout("the page took too long")
        return seconds if timeout is None else min(seconds, timeout)

    def abort(self) -> None:
        """Shut down all connections, so that waiting threads get an error, and refuse new connections."""
        with self._lock:
            self._is_aborted = True
            for stream in self._open:
                with suppress(OSError):
                    stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Check all addresses of the host, and connect to the first address that answers."""
        try:
            addresses = resolve_checked(host, port, allow_private=self.allow_private)
        except OSError as error:
            raise httpcore.ConnectError(f"cannot resolve {host}: {error.strerror or error}") from error
        except UnicodeError as error:
            raise httpcore.ConnectError(f"cannot resolve {host}: not a host name") from error
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                inner = self._plain.connect_tcp(address, port, self.remaining(timeout), None, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            stream = _Stream(inner, self)
            with self._lock:
                if not self._is_aborted:
                    self._open.add(stream)
                    return stream
            inner.close()
            raise httpcore.ConnectError("the crawl is being stopped")
        raise failure


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, backend: GuardedBackend) -> None:
        self._inner, self._backend = inner, backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._backend.remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._backend.remaining(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._inner = self._inner.start_tls(ssl_context, server_hostname, self._backend.remaining(timeout))
        return self

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _has_no_headers(record: logging.LogRecord) -> bool:
    """Return False for messages of httpcore that contain response headers, because headers may contain cookies."""
    text = record.getMessage()
    return not text.startswith("receive_response_headers.") or text.startswith("receive_response_headers.started")


logging.getLogger("httpcore.http11").addFilter(_has_no_headers)
