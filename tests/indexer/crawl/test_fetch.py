import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.answers import Unavailable
from indexer.crawl.fetch import Fetcher, Request
from indexer.errors import FetchError, NotWanted
from tests.indexer.server import Reply, Site, redirect, send

SMALL = CrawlLimits(allow_private=True, timeout=20.0, max_bytes=10_000)


def get(site: Site, path: str = "/p", limits: CrawlLimits = SMALL) -> bytes:
    with closing(Fetcher(limits)) as fetcher:
        return fetcher.get(site.url + path).body


def test_answers_with_type_charset_and_headers(site: Site) -> None:
    site.routes["/p"] = Reply(b"x", 200, {"Content-Type": 'Text/HTML; charset="ISO-8859-1"', "ETag": '"e"'})
    with closing(Fetcher(SMALL)) as fetcher:
        answer = fetcher.get(f"{site.url}/p")
    assert (answer.body, answer.content_type, answer.charset) == (b"x", "text/html", "ISO-8859-1")
    assert answer.headers["etag"] == '"e"'
    assert answer.url == f"{site.url}/p"
    assert answer.fetched_at.endswith("+00:00")
    assert all(agent.startswith("Pilotlight/") for agent in site.agents)


def test_five_redirects_are_followed_and_six_are_not(site: Site) -> None:
    for i in range(7):
        site.routes[f"/{i}"] = redirect(f"/{i + 1}")
    site.routes["/5"] = "end"
    assert get(site, "/0") == b"end"
    site.routes["/5"] = redirect("/6")
    site.routes["/6"] = "too far"
    with pytest.raises(FetchError, match="more than 5 redirects"):
        get(site, "/0")


def test_an_endless_body_is_stopped(site: Site) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        while not site.stopping.is_set():
            handler.wfile.write(b"x" * 4096)

    site.routes["/p"] = endless
    with pytest.raises(FetchError, match="larger than 10,000 bytes"):
        get(site)


@pytest.mark.parametrize("where", ["headers", "body"])
def test_a_byte_at_a_time_runs_into_the_deadline(site: Site, where: str) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        if where == "body":
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.end_headers()
        else:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not site.stopping.wait(0.05):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    site.routes["/p"] = drip
    began = time.monotonic()
    with pytest.raises(FetchError, match=r"within 0\.4 s"):
        get(site, limits=CrawlLimits(allow_private=True, timeout=0.4))
    assert time.monotonic() - began < 3
    assert site.hits == ["/p"], "a page that is too slow is not asked for again"


def test_a_server_that_never_answers(site: Site) -> None:
    site.routes["/p"] = lambda handler: site.stopping.wait(20) and None
    with pytest.raises(FetchError, match=r"within 0\.3 s"):
        get(site, limits=CrawlLimits(allow_private=True, timeout=0.3))


@pytest.mark.parametrize("status", [500, 503, 429])
def test_server_errors_are_tried_again(site: Site, status: int) -> None:
    def second_time(handler: BaseHTTPRequestHandler) -> None:
        send(handler, Reply(b"x", status) if len(site.hits) == 1 else Reply(b"well"))

    site.routes["/p"] = second_time
    assert get(site) == b"well"
    assert len(site.hits) == 2


def test_conditional_requests_ask_each_hop_with_its_own_validators(site: Site) -> None:
    seen: list[tuple[str, str | None]] = []

    def note(reply: Reply) -> Callable[[BaseHTTPRequestHandler], None]:
        def route(handler: BaseHTTPRequestHandler) -> None:
            seen.append((handler.path, handler.headers.get("If-None-Match")))
            send(handler, reply)

        return route

    site.routes["/old"] = note(redirect("/p"))
    site.routes["/p"] = note(Reply(b"", 304, {"X-Robots-Tag": "noindex"}))
    with closing(Fetcher(SMALL)) as fetcher:
        answer = fetcher.get(
            f"{site.url}/old", Request(validators=lambda url: {"If-None-Match": '"e"'} if url.endswith("/p") else {})
        )
    assert seen == [("/old", None), ("/p", '"e"')]
    assert (answer.is_unchanged, answer.url, answer.body) == (True, f"{site.url}/p", b"")
    assert answer.headers["X-Robots-Tag"] == "noindex"


def test_304_without_a_condition_is_a_failure(site: Site) -> None:
    site.routes["/p"] = Reply(b"", 304)
    with pytest.raises(FetchError, match="HTTP 304"):
        get(site)


@pytest.mark.parametrize(("status", "may_pass"), [(500, True), (503, True), (429, True), (404, False), (403, False)])
def test_troubles_that_may_pass_are_told_apart(site: Site, status: int, may_pass: bool) -> None:
    site.routes["/p"] = Reply(b"x", status)
    with pytest.raises(FetchError) as caught:
        get(site)
    assert isinstance(caught.value, Unavailable) is may_pass


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (410, 1), (500, 3)])
def test_lasting_errors_name_the_status(site: Site, status: int, tries: int) -> None:
    site.routes["/p"] = Reply(b"x", status)
    with pytest.raises(FetchError, match=f"HTTP {status}") as caught:
        get(site)
    assert caught.value.status == status
    assert len(site.hits) == tries


def test_rubbish_instead_of_http(site: Site) -> None:
    site.routes["/p"] = lambda handler: handler.wfile.write(b"\x00\x01garbage\r\n\r\n") and None
    with pytest.raises(FetchError):
        get(site, limits=CrawlLimits(allow_private=True, timeout=1.0))


def test_headers_without_end_are_refused(site: Site) -> None:
    site.routes["/p"] = Reply(b"x", 200, {"Content-Type": "text/html", "X-Long": "y" * 500_000})
    with pytest.raises(FetchError):
        get(site)


def test_other_media_types_are_not_downloaded(site: Site) -> None:
    site.routes["/p"] = Reply(b"PNG", 200, {"Content-Type": "image/png"})
    with pytest.raises(NotWanted, match="content type image/png is not read"):
        get(site)
    site.routes["/p"] = Reply(bytes(10), 200, {})
    with pytest.raises(NotWanted, match="content type missing"):
        get(site)


def test_no_cookie_is_kept(site: Site) -> None:
    seen: list[str | None] = []

    def cookie(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Cookie"))
        send(handler, Reply(b"x", 200, {"Content-Type": "text/html", "Set-Cookie": "a=1; Path=/"}))

    site.routes["/p"] = cookie
    with closing(Fetcher(SMALL)) as fetcher:
        fetcher.get(f"{site.url}/p")
        fetcher.get(f"{site.url}/p")
    assert seen == [None, None]


def test_abort_wakes_a_waiting_fetch(site: Site) -> None:
    asked = threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        site.stopping.wait(20)

    site.routes["/p"] = silent
    errors: list[FetchError] = []
    with closing(Fetcher(CrawlLimits(allow_private=True, timeout=15.0))) as fetcher:

        def run() -> None:
            try:
                fetcher.get(f"{site.url}/p")
            except FetchError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert asked.wait(5)
        fetcher.abort()
        thread.join(5)
        assert not thread.is_alive()
    assert len(errors) == 1


def test_delay_spaces_the_requests(site: Site) -> None:
    site.routes["/p"] = "x"
    with closing(Fetcher(CrawlLimits(allow_private=True, timeout=20.0, delay=0.1))) as fetcher:
        began = time.monotonic()
        for _ in range(4):
            fetcher.get(f"{site.url}/p")
        assert time.monotonic() - began >= 0.3
