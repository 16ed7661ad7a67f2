import gzip
import random
import zlib
from collections.abc import Callable

import brotli
import pytest

from indexer.config import CrawlLimits
from indexer.encodings import zstd
from indexer.errors import FetchError
from tests.indexer.crawl.test_fetch import get
from tests.indexer.server import Reply, Site

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "identity": bytes,
}
PAGE = b"<!DOCTYPE html><title>T</title><p>Some words of a page that is packed or not.</p>"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity"])
def test_content_encodings_asked_for_are_undone(site: Site, encoding: str) -> None:
    body = b"hello " * 100
    packed = PACKERS[encoding](body)
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    assert get(site) == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_stopped_at_the_limit(site: Site, encoding: str) -> None:
    packed = PACKERS[encoding](bytes(20_000_000))
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="larger than 10,000 bytes"):
        get(site)


@pytest.mark.parametrize("encoding", ["compress", "X-Compress", "gzip, dcz", "pack200-gzip", "exi"])
def test_packings_not_asked_for_are_refused(site: Site, encoding: str) -> None:
    site.routes["/p"] = Reply(b"\x1f\x9d\x90" * 50, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="was not asked for"):
        get(site)


NONE = [
    "",
    " ",
    "UTF-8",
    "utf8",
    "none",
    "binary",
    "8bit",
    "7bit",
    "identity",
    "Identity, identity",
    "text/html",
    "x" * 500,
]


@pytest.mark.parametrize(
    "encoding", [*NONE, "iso-8859-1", "en", "chunked", "default", "false", ",", "windows-1252;q=1"]
)
def test_an_encoding_that_names_no_packing_says_nothing(site: Site, encoding: str) -> None:
    body = "<p>dünn</p>".encode()
    site.routes["/p"] = Reply(body, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    assert get(site) == body


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip, identity", gzip.compress(PAGE)),
        ("utf-8, gzip", gzip.compress(PAGE)),
        (" GZIP ,", gzip.compress(PAGE)),
        ("gzip, gzip", gzip.compress(gzip.compress(PAGE))),
        ("gzip, br", brotli.compress(gzip.compress(PAGE))),
        ("deflate, zstd, gzip", gzip.compress(zstd.compress(zlib.compress(PAGE)))),
        ("gzip, gzip", gzip.compress(PAGE)),
        ("gzip", gzip.compress(gzip.compress(PAGE))),
        ("br", gzip.compress(PAGE)),
        ("deflate", gzip.compress(PAGE)),
        ("gzip", zlib.compress(PAGE)),
        ("gzip", zstd.compress(PAGE)),
        ("", gzip.compress(PAGE)),
        ("none", gzip.compress(PAGE)),
        ("utf-8", gzip.compress(PAGE)),
        ("gzip", gzip.compress(PAGE[:20]) + gzip.compress(PAGE[20:]) + bytes(100)),
    ],
)
def test_packings_other_than_the_header_says_are_undone(site: Site, encoding: str, packed: bytes) -> None:
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    assert get(site) == PAGE


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize(
    "body",
    [PAGE, b"", b"ok", b"\xef\xbb\xbf<p>", "<p>Ünïcödé</p>".encode("utf-16"), b"%PDF-1.4\n\x00\x01", b'{"a": 1}'],
)
def test_a_body_that_is_not_packed_is_read_as_it_is(site: Site, encoding: str, body: bytes) -> None:
    site.routes["/p"] = Reply(body, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    assert get(site) == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_grows_too_much_is_stopped_long_before_the_limit(site: Site, encoding: str) -> None:
    packed = PACKERS[encoding](bytes(8_000_000))
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="grows more than 200-fold"):
        get(site, limits=CrawlLimits(allow_private=True, max_bytes=100_000_000))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("cut", [None, -12])
def test_damaged_bodies_are_failures(site: Site, encoding: str, cut: int | None) -> None:
    body = bytes(50) if cut is None else PACKERS[encoding](random.Random(1).randbytes(3000))[:cut]
    site.routes["/p"] = Reply(body, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match=rf"damaged {encoding} body|ends too early"):
        get(site)


def test_a_zstd_body_of_several_frames_is_read_whole(site: Site) -> None:
    body = zstd.compress(b"one ") + zstd.compress(b"two")
    site.routes["/p"] = Reply(body, 200, {"Content-Type": "text/html", "Content-Encoding": "zstd"})
    assert get(site) == b"one two"


def test_a_zstd_window_larger_than_the_web_allows_is_refused(site: Site) -> None:
    options = {zstd.CompressionParameter.window_log: 27}
    packed = zstd.ZstdCompressor(options=options)
    body = packed.compress(b"x" * 1000) + packed.flush()
    site.routes["/p"] = Reply(body, 200, {"Content-Type": "text/html", "Content-Encoding": "zstd"})
    with pytest.raises(FetchError, match="damaged zstd body"):
        get(site)
