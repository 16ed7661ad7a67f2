"""Content encodings as servers name them, rightly and wrongly; a body may come in any pieces."""

import gzip
import random
import zlib
from collections.abc import Callable

import pytest

from indexer.errors import FetchError
from indexer.network.http import decode_body
from tests.indexer.crawl.test_fetch import get
from tests.indexer.server import Reply, Site

PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
PAGE = b"<!DOCTYPE html><title>T</title><p>Some words of a page that is packed or not.</p>"


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return the body that comes whole, and check that it is the same byte by byte."""
    whole = b"".join(decode_body([body], encoding))
    assert b"".join(decode_body((body[at : at + 1] for at in range(len(body))), encoding)) == whole
    return whole


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_bomb_is_stopped_at_the_limit(site: Site, encoding: str) -> None:
    packed = PACKERS[encoding](bytes(20_000_000))
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="larger than 10,000 bytes"):
        get(site)
    with pytest.raises(FetchError, match="grows more than 200-fold"):
        list(decode_body([packed], encoding))
    assert len(next(decode_body([packed], encoding))) < 1 << 20


@pytest.mark.parametrize("encoding", ["compress", "X-Compress", "gzip, dcz", "exi", "br", "zstd"])
def test_packings_not_asked_for_are_refused(encoding: str) -> None:
    with pytest.raises(FetchError, match="is not supported"):
        list(decode_body([b"\x1f\x9d\x90" * 50], encoding))


@pytest.mark.parametrize("encoding", ["", " ", "UTF-8", "none", "Identity, identity", "text/html", ",", "x" * 500])
def test_an_encoding_that_names_no_packing_says_nothing(encoding: str) -> None:
    assert unpacked("<p>dünn</p>".encode(), encoding) == "<p>dünn</p>".encode()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        *((name, pack(PAGE)) for name, pack in PACKERS.items()),
        ("utf-8, gzip", gzip.compress(PAGE)),
        (" GZIP ,", gzip.compress(PAGE)),
        ("deflate, gzip, gzip", gzip.compress(gzip.compress(zlib.compress(PAGE)))),
        ("gzip, gzip", gzip.compress(PAGE)),
        ("br", gzip.compress(PAGE)),
        ("deflate", gzip.compress(PAGE)),
        ("deflate", zlib.compress(PAGE, wbits=-15)),
        ("gzip", zlib.compress(PAGE)),
        ("gzip", gzip.compress(PAGE[:20]) + gzip.compress(PAGE[20:]) + bytes(100)),
    ],
)
def test_packings_are_undone_also_where_the_header_names_another(encoding: str, packed: bytes) -> None:
    assert unpacked(packed, encoding) == PAGE


def test_gzip_that_no_header_names() -> None:
    for body in (PAGE, gzip.compress(PAGE)):
        assert b"".join(decode_body([body], "", is_text=True)) == PAGE


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize("body", [PAGE, b"", b"ok", "<p>Ü</p>".encode("utf-16"), b"%PDF-1.4\n\x00\x01", b'{"a": 1}'])
def test_a_body_that_is_not_packed_is_read_as_it_is(encoding: str, body: bytes) -> None:
    assert b"".join(decode_body([body], encoding)) == body


@pytest.mark.parametrize("encoding", PACKERS)
def test_damaged_bodies_are_failures(encoding: str) -> None:
    for body in (bytes(50), PACKERS[encoding](random.Random(1).randbytes(3000))[:-12]):
        with pytest.raises(FetchError, match=rf"damaged {encoding} body|truncated"):
            list(decode_body([body], encoding))
