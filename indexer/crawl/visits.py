"""The records of a crawl about an address: that it is due, and what came of asking for it."""

from dataclasses import dataclass, replace

from indexer.errors import NotWanted
from indexer.records import Known, Page


@dataclass(frozen=True, slots=True)
class Queued:
    """An address that is to be asked for."""

    url: str
    depth: int  # links from the start


@dataclass(frozen=True, slots=True)
class Visit:
    """The result of reading an address."""

    page: Page | Known
    alias: Page | None = None  # the page that named this one as its canonical address


def requested_as(page: Page | Known, url: str) -> Page | Known:
    """Return a page with the address that was asked for."""
    if isinstance(page, Known):
        return Known(replace(page.record, requested=url))
    return replace(page, requested=url)


class MovedToHttps(NotWanted):
    """The start page is at the same place under https."""

    def __init__(self, url: str) -> None:
        super().__init__(f"moved to {url}")
        self.url = url
