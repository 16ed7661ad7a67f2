"""A single document packed with gzip, as folders of documentation have them; unpacked where it is read."""

import zlib

from indexer.errors import ParseError
from indexer.read.container import Budget

MAGIC = b"\x1f\x8b"
_PIECE = 1 << 16  # bytes unpacked at once


def unpacked(body: bytes) -> bytes:
    """Unpack a document, of one member; raises ParseError if it is damaged, or grows more than archives may."""
    budget, pieces = Budget(len(body)), []
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        while not stream.eof:
            piece = stream.decompress(body, _PIECE)
            body = stream.unconsumed_tail
            if not piece and not body and not stream.eof:
                raise ParseError("truncated or damaged: it is packed with gzip and ends too soon")
            budget.spend(len(piece))
            pieces.append(piece)
    except zlib.error as error:
        raise ParseError("truncated or damaged: it is not a gzip file") from error
    return b"".join(pieces)
