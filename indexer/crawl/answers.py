"""What comes of a request: an answer, or an error that says whether another time may be better."""

from dataclasses import dataclass

import httpx

from indexer.crawl.headers import language_in
from indexer.errors import FetchError
from indexer.records import Page


class Unavailable(FetchError):
    """A page that may well be there: no connection, no complete answer in time, HTTP 429 or 5xx."""

    def __init__(self, reason: str, *, status: int | None = None, retry: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason, status=status, retry=retry)
        self.pause = pause  # seconds in which the server wants to be left alone


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server, redirects followed."""

    url: str  # of the last hop, normalised
    body: bytes  # decoded
    content_type: str
    charset: str | None
    headers: httpx.Headers  # as far as they are read
    fetched_at: str  # ISO 8601, UTC
    unchanged: bool = False  # HTTP 304: the body is the one that the validators belong to, and is left out
    access: int = -1  # number of the `Access` it was asked with, 0 as by anyone; -1: in an interrupted build

    def as_page(self, source: str, requested: str) -> Page:
        """Return the page of a source that this address led to."""
        return Page(
            url=self.url,
            source=source,
            body=self.body,
            content_type=self.content_type,
            charset=self.charset,
            etag=self.headers.get("ETag"),
            last_modified=self.headers.get("Last-Modified"),
            fetched_at=self.fetched_at,
            requested=requested,
            language=language_in(self.headers),
        )


def is_missing(error: FetchError) -> bool:
    """Whether the server has answered that there is no such page, or none for us."""
    return error.status is not None and 400 <= error.status < 500
