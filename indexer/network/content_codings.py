"""Undo content encodings of HTTP in bounded steps, so that no answer can be larger than what is asked for."""

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

from indexer.errors import FetchError

ACCEPTED = "gzip, deflate"  # as in Accept-Encoding
_MOST_PACKINGS = 3
_MOST_RATIO = 200  # decoded bytes for each byte received; text that people write stays below 50
_RATIO_FROM = 1_000_000  # decoded bytes from which the ratio counts
_STEP = 1 << 18  # bytes decoded at a time
_SLICE = 1 << 14  # bytes given to the decoder at a time, which copies what it leaves
GZIP = b"\x1f\x8b"
_FILES = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how files begin that are read and are no text
_BOMS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
_TEXT = bytes({*range(0x20, 0x100), *b"\t\n\f\r\x1b"})  # as the MIME Sniffing Standard has it
_LOOKED_AT = 512  # bytes that tell text from binary data


class CutShort(FetchError):
    """A body that ends before its encoding does."""


def decoded(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Undo the encodings that a Content-Encoding header names, never making more than 256 KiB at a time.

    A body that is not packed as its header says, or not at all, is told by its first bytes. Raises CutShort if the body
    ends too early, FetchError if the encoding was not asked for, the body is damaged, or it grows more than 200-fold.
    """
    packings = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(packings) > _MOST_PACKINGS:
        raise FetchError(f"more than {_MOST_PACKINGS} content encodings")
    return _without(parts, packings)


def bounded(parts: Iterable[bytes], encoding: str, most: int) -> bytes:
    """Return a decoded body of at most so many bytes. Raises FetchError for a longer one, and as `decoded` does."""
    body = bytearray()
    for piece in decoded(parts, encoding):
        body += piece
        if len(body) > most:
            raise FetchError(f"larger than {most:,} bytes")
    return bytes(body)


def without_gzip(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Undo gzip that no header names, as far as the first bytes tell; raises as `decoded` does."""
    return _without(parts, [""])


def is_text(body: bytes) -> bool:
    """Return whether the first bytes of a body are text rather than binary data."""
    return body.startswith(_BOMS) or not body[:_LOOKED_AT].translate(None, _TEXT)


def _without(parts: Iterable[bytes], packings: list[str]) -> Iterator[bytes]:
    received = 0

    def counted(parts: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal received
        for part in parts:
            received += len(part)
            yield part

    def bounded(parts: Iterable[bytes], name: str) -> Iterator[bytes]:
        made = 0
        for part in parts:
            made += len(part)
            if made > _RATIO_FROM and made > received * _MOST_RATIO:
                raise FetchError(f"{name or 'gzip'} body grows more than {_MOST_RATIO}-fold")
            yield part

    pieces = counted(parts)
    for name in reversed(packings):
        pieces = bounded(_unpacked(pieces, name), name)
    return pieces


def _unpacked(parts: Iterator[bytes], name: str) -> Iterator[bytes]:
    head = b""
    while len(head) < _LOOKED_AT and (part := next(parts, None)) is not None:
        head += part
    pieces = chain([head], parts)
    is_plain = is_text(head) or head.startswith(_FILES)
    wbits = _wbits(name, head, is_plain)
    if wbits == 0:
        if name and not is_plain:
            raise FetchError(f"damaged {name} body" if name in ("gzip", "x-gzip") else f"{name} was not asked for")
        yield from pieces
        return
    try:
        yield from _inflated(pieces, wbits)
    except EOFError as error:
        raise CutShort(f"{name or 'gzip'} body ends too early") from error
    except zlib.error as error:
        raise FetchError(f"damaged {name or 'gzip'} body") from error


def _wbits(name: str, head: bytes, is_plain: bool) -> int:
    """Return how zlib is told of the packing of a body that begins so; 0 where it is not packed, or not by zlib."""
    if head.startswith(GZIP):
        return 31
    if is_plain or not name:
        return 0
    if head[0] & 0x8F == 8 and int.from_bytes(head[:2]) % 31 == 0:
        return 15
    return -15 if name == "deflate" else 0  # bare, as some servers call by its name


def _inflated(parts: Iterator[bytes], wbits: int) -> Iterator[bytes]:
    """Undo gzip, which may be several members with padding behind, zlib, or bare deflate."""
    decoder = zlib.decompressobj(wbits)
    slices = (whole[at : at + _SLICE] for whole in parts for at in range(0, len(whole), _SLICE))
    for part in slices:
        while part:
            if decoder.eof:
                if wbits != 31 or part[0] != GZIP[0]:  # padding
                    return
                decoder = zlib.decompressobj(wbits)
            yield decoder.decompress(part, _STEP)
            part = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        raise EOFError
