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


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity"])
def test_content_encodings_asked_for_are_undone(site: Site, encoding: str) -> None:
    body = b"hello " * 100
    packed = PACKERS[encoding](body)
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    assert get(site) == body


def test_raw_deflate_is_understood(site: Site) -> None:
    packer = zlib.compressobj(wbits=-15)
    site.routes["/p"] = Reply(
        packer.compress(b"hello") + packer.flush(), 200, {"Content-Type": "text/html", "Content-Encoding": "deflate"}
    )
    assert get(site) == b"hello"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_stopped_at_the_limit(site: Site, encoding: str) -> None:
    packed = PACKERS[encoding](bytes(20_000_000))
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="larger than 10,000 bytes"):
        get(site)


@pytest.mark.parametrize("encoding", ["compress", "gzip, gzip", "x" * 500])
def test_encodings_not_asked_for_are_refused(site: Site, encoding: str) -> None:
    site.routes["/p"] = Reply(b"\x00" * 50, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="was not asked for") as caught:
        get(site)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_grows_too_much_is_stopped_long_before_the_limit(site: Site, encoding: str) -> None:
    packed = PACKERS[encoding](bytes(8_000_000))
    site.routes["/p"] = Reply(packed, 200, {"Content-Type": "text/html", "Content-Encoding": encoding})
    with pytest.raises(FetchError, match="grows more than 200-fold"):
        get(site, limits=CrawlLimits(allow_private=True, max_bytes=100_000_000))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("cut", [None, -12])
def test_damaged_bodies_are_failures(site: Site, encoding: str, cut: int | None) -> None:
    body = b"<p>not packed at all</p>" if cut is None else PACKERS[encoding](random.Random(1).randbytes(3000))[:cut]
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
