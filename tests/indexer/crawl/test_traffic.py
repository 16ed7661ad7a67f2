"""How requests are spaced when a server is busy, and how they are counted."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.answers import Unavailable
from indexer.crawl.fetch import Fetcher
from indexer.errors import FetchError
from tests.indexer.crawl.test_fetch import SMALL, get
from tests.indexer.server import Reply, Site, send


def busy_once(site: Site, retry_after: str) -> None:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        send(handler, Reply(b"", 503, {"Retry-After": retry_after}) if len(site.hits) == 1 else Reply(b"well"))

    site.routes["/p"] = reply


def test_retry_after_is_waited_for_and_does_not_count_as_time_of_the_page(site: Site) -> None:
    busy_once(site, "1")
    began = time.monotonic()
    assert get(site, limits=CrawlLimits(allow_private=True, timeout=0.7)) == b"well"
    assert time.monotonic() - began >= 1


def test_a_site_that_asks_for_an_hour_is_left_alone_at_once(site: Site) -> None:
    site.routes["/p"] = Reply(b"", 429, {"Retry-After": "3600"})
    with closing(Fetcher(SMALL)) as fetcher:
        with pytest.raises(Unavailable, match="HTTP 429"):
            fetcher.get(f"{site.url}/p")
        with pytest.raises(Unavailable, match=r"asks to wait 3,\d\d\d s"):
            fetcher.get(f"{site.url}/p")
    assert site.hits == ["/p"]


def test_abort_wakes_a_fetch_that_waits_for_retry_after(site: Site) -> None:
    site.routes["/p"] = Reply(b"", 503, {"Retry-After": "50"})
    with closing(Fetcher(SMALL)) as fetcher, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetcher.get, f"{site.url}/p")
        while not site.hits:
            assert not waiting.done()
        fetcher.abort()
        with pytest.raises(FetchError):
            waiting.result(5)
