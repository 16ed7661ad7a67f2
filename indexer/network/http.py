"""Decompress HTTP bodies, and select the proxy and the trusted certificates of a request.

Bodies are decompressed in pieces of limited size, so that callers can stop at a limit.
"""

import ssl
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network
from itertools import chain
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi

from indexer.errors import FetchError
from indexer.network.urls import is_loopback

ACCEPT_ENCODING = "gzip, deflate"
_MAX_CODINGS = 3
_MAX_RATIO = 200  # decoded bytes per encoded byte; prose has less than 50
_MIN_BYTES_FOR_RATIO = 1_000_000
_MAX_DECODED_BYTES = 1 << 18
_SLICE_BYTES = 1 << 14
GZIP = b"\x1f\x8b"
_BINARY_SIGNATURES = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_BOMS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
_TEXT = bytes({*range(0x20, 0x100), *b"\t\n\f\r\x1b"})  # bytes that the MIME Sniffing Standard considers text
_SAMPLE_BYTES = 512


class CutShort(FetchError):
    """The body of a response is truncated."""


def decode_body(pieces: Iterable[bytes], encoding: str, *, is_text: bool = False) -> Iterator[bytes]:
    """Decode a body according to its Content-Encoding header. Yields at most 256 KiB at a time.

    Args:
        pieces: the body, which is yielded unchanged if its first bytes are not compressed.
        encoding: value of the header, or "" if it is missing.
        is_text: whether the body should be text, so that gzip is decoded even if the header does not mention it.

    Raises:
        CutShort: the body is truncated.
        FetchError: the coding is unknown, or the body is damaged or grows more than 200-fold.
    """
    names = [name for word in encoding.lower().split(",") if (name := word.strip()) not in ("", "identity")]
    if len(names) > _MAX_CODINGS:
        raise FetchError(f"more than {_MAX_CODINGS} content encodings")
    received = 0

    def counted(pieces: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal received
        for piece in pieces:
            received += len(piece)
            yield piece

    def checked(pieces: Iterable[bytes], name: str) -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > _MIN_BYTES_FOR_RATIO and size > received * _MAX_RATIO:
                raise FetchError(f"{name or 'gzip'} body grows more than {_MAX_RATIO}-fold")
            yield piece

    result = counted(pieces)
    for name in [*reversed(names), *([""] if is_text else [])]:
        result = checked(_decode_one(result, name), name)
    return result


def decode_limited(pieces: Iterable[bytes], encoding: str, max_length: int) -> bytes:
    """Return a decompressed body. Raises FetchError if it is damaged or has more than `max_length` bytes."""
    body = bytearray()
    for piece in decode_body(pieces, encoding):
        body += piece
        if len(body) > max_length:
            raise FetchError(f"larger than {max_length:,} bytes")
    return bytes(body)


def is_text(body: bytes) -> bool:
    """Return whether the first bytes of a body are text rather than binary data."""
    return body.startswith(_BOMS) or not body[:_SAMPLE_BYTES].translate(None, _TEXT)


def _decode_one(stream: Iterator[bytes], name: str) -> Iterator[bytes]:
    head = b""
    while len(head) < _SAMPLE_BYTES and (piece := next(stream, None)) is not None:
        head += piece
    pieces = chain([head], stream)
    is_plain = is_text(head) or head.startswith(_BINARY_SIGNATURES)
    wbits = _window_bits(name, head, is_plain)
    if wbits == 0:
        if name and not is_plain:
            is_gzip = name in ("gzip", "x-gzip")
            raise FetchError(f"damaged {name} body" if is_gzip else f"content encoding {name} is not supported")
        yield from pieces
        return
    try:
        yield from _inflate(pieces, wbits)
    except EOFError as error:
        raise CutShort(f"truncated {name or 'gzip'} body") from error
    except zlib.error as error:
        raise FetchError(f"damaged {name or 'gzip'} body") from error


def _window_bits(name: str, head: bytes, is_plain: bool) -> int:
    """Return zlib's window bits for a body that begins with `head`, or 0 if zlib cannot decode the body."""
    if head.startswith(GZIP):
        return 31
    if is_plain or not name:
        return 0
    if head[0] & 0x8F == 8 and int.from_bytes(head[:2]) % 31 == 0:
        return 15
    return -15 if name == "deflate" else 0  # -15: raw deflate, which some servers send


def _inflate(pieces: Iterator[bytes], wbits: int) -> Iterator[bytes]:
    """Decode zlib, raw deflate or gzip. A gzip body may have several members, and padding after them."""
    decoder = zlib.decompressobj(wbits)
    slices = (piece[start : start + _SLICE_BYTES] for piece in pieces for start in range(0, len(piece), _SLICE_BYTES))
    for data in slices:
        while data:
            if decoder.eof:
                if wbits != 31 or data[0] != GZIP[0]:
                    return
                decoder = zlib.decompressobj(wbits)
            yield decoder.decompress(data, _MAX_DECODED_BYTES)
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        raise EOFError


ENVIRONMENT = "environment"


def proxy_for(url: str, setting: str) -> str | None:
    """Return the address of the proxy for a URL, or None. Requests to this machine use no proxy.

    Args:
        setting: address of a proxy, `ENVIRONMENT` for the proxy in environment variables, or "" for no proxy.
    """
    url_parts = urlsplit(url)
    if not setting or is_loopback(url_parts.hostname or ""):
        return None
    if setting != ENVIRONMENT:
        return setting
    proxies = getproxies()
    port = url_parts.port or (443 if url_parts.scheme == "https" else 80)
    if proxy_bypass(f"{url_parts.hostname}:{port}") or _is_in_network(url_parts.hostname, proxies.get("no", "")):
        return None
    proxy = proxies.get(url_parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _is_in_network(host: str | None, exceptions: str) -> bool:
    """Return whether a host is an IP address in one of the networks that the value of NO_PROXY lists."""
    with suppress(ValueError):
        address = ip_address(host or "")
        return any(address in ip_network(each.strip(), strict=False) for each in exceptions.split(",") if "/" in each)
    return False


def proxy_hint(url: str, setting: str) -> str:
    """Return a hint about the proxy to append to the message of a connection error, or "" without a proxy."""
    if proxy := proxy_for(url, setting):
        return f"; the request went to the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}"
    is_unused = not setting and proxy_for(url, ENVIRONMENT)
    return "; the proxy in the environment is used only with --http-proxy environment" if is_unused else ""


def tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the certificates of certifi, and of SSL_CERT_FILE (by default the system's)."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
