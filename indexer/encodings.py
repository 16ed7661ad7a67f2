"""Content encodings of HTTP undone in bounded steps, so that no answer can be larger than what is asked for."""

import sys
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

import brotli

from indexer.errors import FetchError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = "gzip, deflate, br, zstd"  # as in Accept-Encoding
_UNKNOWN = frozenset(
    "compress x-compress exi pack200-gzip aes128gcm dcb dcz bzip2 xz".split()
)  # packings never asked for
_PACKINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
_MOST_PACKINGS = 3
_MOST_RATIO = 200  # decoded bytes for each byte received; text that people write stays below 50
_RATIO_FROM = 1_000_000  # decoded bytes from which the ratio counts
_LARGEST_WINDOW = 23  # log2 of bytes a zstd frame may ask to look back: RFC 9659
_STEP = 1 << 18  # bytes decoded at a time
_DAMAGED = (zlib.error, brotli.error, zstd.ZstdError)
GZIP = b"\x1f\x8b"
_DEFLATED_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_FILES = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how files begin that are read and are no text
_BOMS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
_TEXT = bytes({*range(0x20, 0x100), *b"\t\n\f\r\x1b"})  # as the MIME Sniffing Standard has it
_LOOKED_AT = 512  # bytes that tell text from binary data


class CutShort(FetchError):
    """A body that ends before its encoding does."""


def decoded(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Undo content encodings, never making more than 256 KiB at a time.

    A name that is no packing, such as `identity` or `utf-8`, means nothing; a body that is not packed as its header
    says, or not at all, is told by its first bytes.

    Args:
        parts: the body as it comes.
        encoding: value of the Content-Encoding header.

    Raises:
        FetchError: the encoding was not asked for, the body is damaged, or it grows more than 200-fold.
        CutShort: the body ends too early.
    """
    names = [name.strip() for name in encoding.lower().split(",")]
    if unknown := _UNKNOWN.intersection(names):
        raise FetchError(f"content encoding {min(unknown)} was not asked for")
    packings = [name for name in names if name in _PACKINGS]
    if len(packings) > _MOST_PACKINGS:
        raise FetchError(f"more than {_MOST_PACKINGS} content encodings")
    for name in reversed(packings):
        parts = _unpacked(parts, name)
    yield from parts


def without_gzip(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Undo gzip that no header names, as far as the first bytes tell; raises as `decoded` does."""
    return _unpacked(parts, "")


def is_text(body: bytes) -> bool:
    """Return whether the first bytes of a body are text rather than binary data."""
    return body.startswith(_BOMS) or not body[:_LOOKED_AT].translate(None, _TEXT)


def _is_unpacked(head: bytes) -> bool:
    return is_text(head) or head.startswith(_FILES)


def _unpacked(parts: Iterable[bytes], name: str) -> Iterator[bytes]:
    parts = iter(parts)
    head = b""
    while len(head) < len(_ZSTD) and (part := next(parts, None)) is not None:
        head += part
    decoder, is_sure = _decoder(name, head)
    if decoder is None:
        if name and not _is_unpacked(head):
            raise FetchError(f"damaged {name} body")
        yield head
        yield from parts
        return
    received = made = 0
    try:
        for part in chain([head] if head else [], parts):
            received += len(part)
            for piece in decoder.step(part):
                made += len(piece)
                if made > _RATIO_FROM and made > received * _MOST_RATIO:
                    raise FetchError(f"{name or 'gzip'} body grows more than {_MOST_RATIO}-fold")
                yield piece
        if received and not decoder.is_finished:
            raise CutShort(f"{name or 'gzip'} body ends too early")
    except (*_DAMAGED, CutShort) as error:
        if not made and received == len(head) and not is_sure and _is_unpacked(head):
            yield head
            yield from parts
        elif isinstance(error, CutShort):
            raise
        else:
            raise FetchError(f"damaged {name or 'gzip'} body") from error


def _decoder(name: str, head: bytes) -> "tuple[_Zlib | _Brotli | _Zstd | None, bool]":
    """Return what undoes a packing of this name, None if the body is not packed, and whether that is sure."""
    if head.startswith(_DEFLATED_GZIP) or (head.startswith(GZIP) and name != "br"):
        return _Zlib(wbits=31), True
    if name and head.startswith(_ZSTD):
        return _Zstd(), True
    if name == "br":
        return _Brotli(), False
    if name and len(head) > 1 and head[0] & 0x8F == 8 and int.from_bytes(head[:2]) % 31 == 0:
        return _Zlib(wbits=15), False
    return (_Zlib(wbits=-15), False) if name == "deflate" else (None, True)


class _Zlib:
    """Gzip, which may be several members, zlib, and the bare deflate that some servers call by its name."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._decoder = zlib.decompressobj(wbits)

    @property
    def is_finished(self) -> bool:
        return self._decoder.eof

    def step(self, part: bytes) -> Iterator[bytes]:
        while part:
            if self._decoder.eof:
                if self._wbits != 31 or part[0] != GZIP[0]:  # padding
                    return
                self._decoder = zlib.decompressobj(self._wbits)
            yield self._decoder.decompress(part, _STEP)
            part = self._decoder.unused_data if self._decoder.eof else self._decoder.unconsumed_tail


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    @property
    def is_finished(self) -> bool:
        return bool(self._decoder.is_finished())

    def step(self, part: bytes) -> Iterator[bytes]:
        if not part:
            return
        piece = self._decoder.process(part, output_buffer_limit=_STEP)
        yield piece
        while not self.is_finished and (piece or not self._decoder.can_accept_more_data()):
            piece = self._decoder.process(b"", output_buffer_limit=_STEP)
            yield piece


class _Zstd:
    def __init__(self) -> None:
        self._new()

    @property
    def is_finished(self) -> bool:
        return self._decoder.eof

    def step(self, part: bytes) -> Iterator[bytes]:
        while part:
            if self._decoder.eof:  # a body may be several frames
                self._new()
            yield self._decoder.decompress(part, _STEP)
            while not self._decoder.eof and not self._decoder.needs_input:
                yield self._decoder.decompress(b"", _STEP)
            part = self._decoder.unused_data if self._decoder.eof else b""

    def _new(self) -> None:
        limit: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _LARGEST_WINDOW}
        self._decoder = zstd.ZstdDecompressor(options=limit)
