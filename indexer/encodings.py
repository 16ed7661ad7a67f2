"""Content encodings of HTTP undone in bounded steps, so that no answer can be larger than what is asked for."""

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator

import brotli

from indexer.errors import FetchError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = "gzip, deflate, br, zstd"  # as in Accept-Encoding
_MOST_RATIO = 200  # decoded bytes for each byte received; text that people write stays below 50
_RATIO_FROM = 1_000_000  # decoded bytes from which the ratio counts
_LARGEST_WINDOW = 23  # log2 of bytes a zstd frame may ask to look back: RFC 9659
_STEP = 1 << 18  # bytes decoded at a time
_DAMAGED = (zlib.error, brotli.error, zstd.ZstdError)


class CutShort(FetchError):
    """A body that ends before its encoding does."""


def decoded(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Undo one content encoding, never making more than 256 KiB at a time.

    Args:
        parts: the body as it comes.
        encoding: value of the Content-Encoding header.

    Raises:
        FetchError: the encoding was not asked for, the body is damaged, or it grows more than 200-fold.
        CutShort: the body ends too early.
    """
    encoding = encoding.strip().lower()
    if encoding in ("identity", ""):
        yield from parts
        return
    if encoding not in _DECODERS:
        raise FetchError(f"content encoding {encoding[:40]} was not asked for")
    decoder = _DECODERS[encoding]()
    received = made = 0
    try:
        for part in parts:
            received += len(part)
            for piece in decoder.step(part):
                made += len(piece)
                if made > _RATIO_FROM and made > received * _MOST_RATIO:
                    raise FetchError(f"{encoding} body grows more than {_MOST_RATIO}-fold")
                yield piece
    except _DAMAGED as error:
        raise FetchError(f"damaged {encoding} body") from error
    if received and not decoder.is_finished:
        raise CutShort(f"{encoding} body ends too early")


class _Zlib:
    """Gzip, zlib, and the bare deflate that some servers call by its name."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=47)  # gzip or zlib, by its header
        self._begun = False

    @property
    def is_finished(self) -> bool:
        return self._decoder.eof

    def step(self, part: bytes) -> Iterator[bytes]:
        if part and not self._begun:
            self._begun = True
            if part[0] != 0x1F and part[0] & 0x0F != 8:
                self._decoder = zlib.decompressobj(wbits=-15)
        while part:
            yield self._decoder.decompress(part, _STEP)
            part = self._decoder.unconsumed_tail


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


_DECODERS: dict[str, Callable[[], _Zlib | _Brotli | _Zstd]] = {
    "gzip": _Zlib,
    "x-gzip": _Zlib,
    "deflate": _Zlib,
    "br": _Brotli,
    "zstd": _Zstd,
}
