"""Files that say that they are small, and are not."""

import struct
import zlib


def png(side: int) -> bytes:
    """An image of so many pixels each way, most of which are missing."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(bytes(1_000_000)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pdf_of_image(side: int) -> bytes:
    """A page with an image of so many grey pixels each way, all of them there."""
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(bytes(side)) for _ in range(side)) + packer.flush()
    draw = b"q 612 0 0 792 0 0 cm /I Do Q"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /XObject << /I 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw),
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
        b"/Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (side, side, len(data), data),
    ]
    body = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, content) for n, content in enumerate(objects, 1))
    return body + b"trailer\n<< /Size 6 /Root 1 0 R >>\n%%EOF\n"
