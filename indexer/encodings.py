"""Undo content encodings of HTTP in bounded steps, so that no answer can be larger than what is asked for."""

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import brotli

from indexer.errors import FetchError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = "gzip, deflate, br, zstd"  # as in Accept-Encoding
_UNKNOWN = frozenset("compress x-compress exi pack200-gzip aes128gcm dcb dcz bzip2 xz".split())  # never asked for
_PACKINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
_MOST_PACKINGS = 3
_MOST_RATIO = 200  # decoded bytes for each byte received; text that people write stays below 50
_RATIO_FROM = 1_000_000  # decoded bytes from which the ratio counts
_LARGEST_WINDOW = 23  # log2 of bytes a zstd frame may ask to look back: RFC 9659
_STEP = 1 << 18  # bytes decoded at a time
GZIP = b"\x1f\x8b"
_DEFLATED_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_FILES = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how files begin that are read and are no text
_BOMS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
_TEXT = bytes({*range(0x20, 0x100), *b"\t\n\f\r\x1b"})  # as the MIME Sniffing Standard has it
_LOOKED_AT = 512  # bytes that tell text from binary data


class CutShort(FetchError):
    """A body that ends before its encoding does."""


def decoded(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Undo the encodings that a Content-Encoding header names, never making more than 256 KiB at a time.

    A name that is no packing, such as `identity` or `utf-8`, means nothing; a body that is not packed as its header
    says, or not at all, is told by its first bytes. Raises CutShort if the body ends too early, FetchError if the
    encoding was not asked for, the body is damaged, or it grows more than 200-fold.
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


def _unpacked(parts: Iterable[bytes], name: str) -> Iterator[bytes]:
    parts, head = iter(parts), b""
    while len(head) < len(_ZSTD) and (part := next(parts, None)) is not None:
        head += part
    if not head:
        return
    is_unpacked = is_text(head) or head.startswith(_FILES)
    unpack, is_sure = _decoder(name, head)
    received = made = 0

    def counted() -> Iterator[bytes]:
        nonlocal received
        for part in chain([head], parts):
            received += len(part)
            yield part

    try:
        if unpack is None and name and not is_unpacked:
            raise FetchError(f"damaged {name} body")
        for piece in unpack(counted()) if unpack else counted():
            made += len(piece)
            if made > _RATIO_FROM and made > received * _MOST_RATIO:
                raise FetchError(f"{name or 'gzip'} body grows more than {_MOST_RATIO}-fold")
            yield piece
    except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as error:
        if not made and received == len(head) and not is_sure and is_unpacked:
            yield from chain([head], parts)
        elif isinstance(error, EOFError):
            raise CutShort(f"{name or 'gzip'} body ends too early") from error
        else:
            raise FetchError(f"damaged {name or 'gzip'} body") from error


_Unpack = Callable[[Iterator[bytes]], Iterator[bytes]]  # raises EOFError for a body that ends too early


def _decoder(name: str, head: bytes) -> tuple[_Unpack | None, bool]:
    """Return what undoes a packing of this name, None if the body is not packed, and whether that is sure."""
    if head.startswith(_DEFLATED_GZIP) or (head.startswith(GZIP) and name != "br"):
        return partial(_inflated, wbits=31), True
    if name and head.startswith(_ZSTD):
        return _without_zstd, True
    if name == "br":
        return _without_brotli, False
    if name and len(head) > 1 and head[0] & 0x8F == 8 and int.from_bytes(head[:2]) % 31 == 0:
        return partial(_inflated, wbits=15), False
    return (partial(_inflated, wbits=-15), False) if name == "deflate" else (None, True)


def _inflated(parts: Iterator[bytes], wbits: int) -> Iterator[bytes]:
    """Undo gzip, which may be several members, zlib, or the bare deflate that some servers call by its name."""
    decoder = zlib.decompressobj(wbits)
    for part in parts:
        while part:
            if decoder.eof:
                if wbits != 31 or part[0] != GZIP[0]:  # padding
                    break
                decoder = zlib.decompressobj(wbits)
            yield decoder.decompress(part, _STEP)
            part = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        raise EOFError


def _without_brotli(parts: Iterator[bytes]) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    for part in filter(None, parts):
        piece = decoder.process(part, output_buffer_limit=_STEP)
        yield piece
        while not decoder.is_finished() and (piece or not decoder.can_accept_more_data()):
            piece = decoder.process(b"", output_buffer_limit=_STEP)
            yield piece
    if not decoder.is_finished():
        raise EOFError


def _without_zstd(parts: Iterator[bytes]) -> Iterator[bytes]:
    limit: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _LARGEST_WINDOW}
    decoder = zstd.ZstdDecompressor(options=limit)
    for part in parts:
        while part:
            if decoder.eof:  # a body may be several frames
                decoder = zstd.ZstdDecompressor(options=limit)
            yield decoder.decompress(part, _STEP)
            while not decoder.eof and not decoder.needs_input:
                yield decoder.decompress(b"", _STEP)
            part = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise EOFError
