"""One request and its answer, as logging in and looking after a session need them: nothing is followed or judged."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import httpx

from indexer.urls import normalise

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Access:
    """All that a request is sent with beside its usual headers."""

    number: int  # of the time that this was got; greater once it was got again
    headers: Mapping[str, str] = field(repr=False)
    context: ssl.SSLContext | None = None  # with a client certificate


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    url: str
    status: int
    headers: httpx.Headers = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def target(self) -> str | None:
        """The normalised address that it redirects to, if it does."""
        return normalise(self.url, self.headers.get("Location", "")) if self.status in REDIRECTS else None

    @property
    def charset(self) -> str | None:
        """What the Content-Type header names."""
        return self.headers.encoding if "charset" in self.headers.get("Content-Type", "").lower() else None


class Exchange(Protocol):
    """Sends one request as the crawler does: to checked addresses, within its limits, in its turn."""

    def __call__(self, url: str, access: Access, form: bytes | None = None, told: str | None = None) -> Reply:
        """Return the answer to a GET, or with a form a POST.

        Args:
            url: normalised address.
            access: what it is sent with.
            form: body, as application/x-www-form-urlencoded.
            told: address to name in the report instead, if this one may have a secret in it.

        Raises:
            FetchError: there is no answer, or none within the limits.
        """
        ...
