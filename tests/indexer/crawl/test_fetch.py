"""One page over HTTP: what ends a request, what is tried again, how requests are spaced and counted."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.http_response import PageUnavailable
from indexer.errors import FetchError
from tests.indexer.server import Reply, Site, redirect, send

SMALL = CrawlLimits(allow_private=True, timeout=300.0, max_bytes=10_000)
HTML = {"Content-Type": "text/html"}


def get(site: Site, path: str = "/p", limits: CrawlLimits = SMALL) -> bytes:
    with closing(Fetcher(limits)) as fetcher:
        return fetcher.get(site.url + path).body


def drip(handler: BaseHTTPRequestHandler, head: bytes, part: bytes, pause: Callable[[], bool]) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + head)
    while not pause():
        handler.wfile.write(part)
        handler.wfile.flush()


@pytest.mark.parametrize(
    ("head", "part", "seconds", "why"),
    [
        (b"Content-Type: text/html\r\n\r\n", b"x", 0.05, r"within 0\.4 s"),
        (b"X-Slow: ", b"x", 0.05, r"within 0\.4 s"),
        (b"", b"", 20, r"within 0\.4 s"),
        (b"\r\n\x00\x01garbage", b"\r\n\r\n", 0.0, None),
    ],
    ids=["slow body", "slow headers", "silent", "rubbish"],
)
def test_answers_that_do_not_end(site: Site, head: bytes, part: bytes, seconds: float, why: str | None) -> None:
    site.routes["/p"] = lambda handler: drip(handler, head, part, lambda: site.stopping.wait(seconds))
    began = time.monotonic()
    with pytest.raises(FetchError, match=why):
        get(site, limits=CrawlLimits(allow_private=True, timeout=0.4 if seconds else 5, max_bytes=10_000))
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("status", [500, 503, 429, 404, 403, 410, 304])
def test_troubles_that_may_pass_are_tried_again(site: Site, status: int) -> None:
    may_pass = status >= 429
    site.routes["/p"] = Reply(b"x", status)
    with pytest.raises(FetchError, match=f"HTTP {status}") as caught:
        get(site)
    assert (caught.value.status, isinstance(caught.value, PageUnavailable)) == (status, may_pass)
    assert len(site.hits) == (3 if may_pass else 1)
    busy_once(site, "")
    assert get(site) == b"well"


def busy_once(site: Site, retry_after: str) -> None:
    site.hits.clear()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        send(handler, Reply(b"", 503, {"Retry-After": retry_after}) if len(site.hits) == 1 else Reply(b"well"))

    site.routes["/p"] = reply


def test_conditional_requests_ask_each_hop_with_its_own_validators(site: Site) -> None:
    seen: list[tuple[str, str | None]] = []
    site.came = lambda handler: seen.append((handler.path, handler.headers.get("If-None-Match")))  # type: ignore[method-assign]
    site.routes |= {"/old": redirect("/p"), "/p": Reply(b"", 304, {"X-Robots-Tag": "noindex"})}
    request = PageRequest(validators=lambda url: {"If-None-Match": '"e"'} if url.endswith("/p") else {})
    with closing(Fetcher(SMALL)) as fetcher:
        answer = fetcher.get(f"{site.url}/old", request)
    assert seen == [("/old", None), ("/p", '"e"')]
    assert (answer.is_unchanged, answer.url, answer.body) == (True, f"{site.url}/p", b"")
    assert answer.headers["X-Robots-Tag"] == "noindex"


@pytest.mark.parametrize("is_silent", [True, False])
def test_abort_wakes_a_fetch_that_waits(site: Site, is_silent: bool) -> None:
    """For an answer, or for as long as the site has asked to wait."""
    waits = {True: lambda handler: site.stopping.wait(20) and None, False: Reply(b"", 503, {"Retry-After": "50"})}
    site.routes["/p"] = waits[is_silent]  # type: ignore[assignment]
    with closing(Fetcher(SMALL)) as fetcher, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetcher.get, f"{site.url}/p")
        while not site.hits:
            assert not waiting.done()
        fetcher.abort()
        with pytest.raises(FetchError):
            waiting.result(300)


def test_delay_and_retry_after_space_the_requests(site: Site) -> None:
    site.routes["/x"] = "x"
    with closing(Fetcher(CrawlLimits(allow_private=True, timeout=300.0, delay=0.1))) as fetcher:
        began = time.monotonic()
        for _ in range(4):
            fetcher.get(f"{site.url}/x")
        assert time.monotonic() - began >= 0.3
    busy_once(site, "3")
    began = time.monotonic()
    assert get(site, limits=CrawlLimits(allow_private=True, timeout=2.9)) == b"well", "no time of the page"
    assert time.monotonic() - began >= 3


def test_a_site_that_asks_for_an_hour_is_left_alone_at_once(site: Site) -> None:
    site.routes["/p"] = Reply(b"", 429, {"Retry-After": "3600"})
    with closing(Fetcher(SMALL)) as fetcher:
        for why in ("HTTP 429", r"asks to wait 3,\d\d\d s"):
            with pytest.raises(PageUnavailable, match=why):
                fetcher.get(f"{site.url}/p")
    assert site.hits == ["/p"]


def test_a_site_that_lets_requests_wait_for_too_long_is_asked_no_more(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.routes["/p"] = lambda handler: site.stopping.wait(20) and None
    monkeypatch.setattr("indexer.crawl.fetch._MAX_FAILED_SECONDS", 0.5)
    with closing(Fetcher(CrawlLimits(allow_private=True, timeout=0.3))) as fetcher:
        for why in (r"within 0\.3 s", r"within 0\.3 s", "failed requests to the site"):
            with pytest.raises(PageUnavailable, match=why):
                fetcher.get(f"{site.url}/p")
    assert site.hits == ["/p", "/p"]
