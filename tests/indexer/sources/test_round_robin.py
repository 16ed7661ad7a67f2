"""Several sources at once: sites side by side, their pages in an order that depends on what they hold."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from indexer.config import CrawlLimits
from indexer.records import Page, Skip
from indexer.sources.reading import Reading, read_sources
from tests.indexer.crawl.test_crawler import link
from tests.indexer.server import Reply, Site, page, send


@pytest.fixture
def sites() -> Iterator[list[Site]]:
    servers = [Site() for _ in range(3)]
    yield servers
    for server in servers:
        server.close()


def limits(sites: int = 4, concurrency: int = 2) -> CrawlLimits:
    return CrawlLimits(allow_private=True, timeout=20.0, sites=sites, concurrency=concurrency)


def order(sites: list[Site], limits: CrawlLimits, *sources: str) -> list[str]:
    """What was read, in order: the number of the site and the path."""
    found = []
    for item in read_sources(sources, Reading(limits)):
        assert isinstance(item, Page)
        number = next(number for number, site in enumerate(sites) if item.url.startswith(site.url))
        found.append(f"{number}{item.url.removeprefix(sites[number].url)}")
    return found


def test_sites_are_read_at_the_same_time(sites: list[Site]) -> None:
    """A page of each site but the last answers only once the next site has been asked for."""
    asked = [threading.Event() for _ in sites]
    for number, site in enumerate(sites):

        def start(handler: BaseHTTPRequestHandler, number: int = number) -> None:
            asked[number].set()
            send(handler, Reply(page(f"{number} {link('/slow')}").encode()))

        def slow(handler: BaseHTTPRequestHandler, number: int = number) -> None:
            assert asked[min(number + 1, 2)].wait(5)
            send(handler, Reply(page(f"slow {number}").encode()))

        site.routes |= {"/": start, "/slow": slow}
    urls = [site.url for site in sites]
    assert order(sites, limits(), *urls) == ["0/", "1/", "2/", "0/slow", "1/slow", "2/slow"]


def test_sources_on_one_host_take_turns_as_its_rules_ask(sites: list[Site]) -> None:
    busy, most = 0, 0
    lock = threading.Lock()

    def counted(handler: BaseHTTPRequestHandler) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        send(handler, Reply(page(f"{handler.path} {link('/x')}" if handler.path != "/x" else "x").encode()))
        with lock:
            busy -= 1

    sites[0].routes |= {"/a/": counted, "/b/": counted, "/x": counted}
    sites[1].pages(index="other")
    sources = [f"{sites[0].url}/a/", sites[1].url, f"{sites[0].url}/b/"]
    items = list(read_sources(sources, Reading(limits(concurrency=1))))
    pages = [item.url for item in items if isinstance(item, Page)]
    skips = [item.reason for item in items if isinstance(item, Skip)]
    first, other, x, second = f"{sites[0].url}/a/", f"{sites[1].url}/", f"{sites[0].url}/x", f"{sites[0].url}/b/"
    assert (pages, skips, most) == ([first, other, x, second], ["already read"], 1)
