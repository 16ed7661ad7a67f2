"""The headers of an answer: what they say of the page that came with it, or of when to ask again."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from indexer.read.links.refresh import refresh_in
from indexer.read.metadata import language_of
from indexer.urls import normalise, origin

# of the page, and of what its scripts may do with it
_KEPT = frozenset(
    b"etag last-modified link content-language x-robots-tag refresh "
    b"access-control-allow-origin access-control-allow-credentials".split()
)
_LONGEST = 10_000  # characters of Link headers that are read
# RFC 8288: <target>; name=value; name="value", <target> …
_LINK = re.compile(r'<([^>]*)>((?:\s*;\s*[\w*!#$&+.^`|~-]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;,"]*))?)*)')
_RELATION = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)


def kept(headers: httpx.Headers, hidden: Callable[[bytes], bytes] = bytes) -> httpx.Headers:
    """Return the headers that say something of the page, and nothing of who asked; `hidden` takes out secrets."""
    return httpx.Headers([(name, hidden(value)) for name, value in headers.raw if name.lower() in _KEPT])


def canonical_of(url: str, links: Iterable[str]) -> str | None:
    """Where Link headers say that a page belongs, on its own site; None if nowhere, or here.

    Args:
        url: normalised address of the page.
        links: values of the headers.
    """
    for target, parameters in _LINK.findall(", ".join(links)[:_LONGEST]):
        relation = _RELATION.search(parameters)
        if relation is not None and "canonical" in (relation[1] or relation[2] or "").lower().split():
            found = normalise(url, target)
            return found if found is not None and found != url and origin(found) == origin(url) else None
    return None


def refresh_of(url: str, headers: httpx.Headers) -> str | None:
    """Return where a Refresh header sends readers at once, None if nowhere, or here.

    Args:
        url: normalised address of the page.
        headers: of the answer.
    """
    seconds, target = refresh_in(headers.get("Refresh", "")) or (1, "")
    found = normalise(url, target) if seconds == 0 else None
    return found if found != url else None


def language_in(headers: httpx.Headers) -> str | None:
    """The language that Content-Language names, if it is one; several say who may read it, not what it is in."""
    found = headers.get("Content-Language", "")
    return language_of(found) if "," not in found else None


def retry_after(headers: httpx.Headers) -> float | None:
    """Seconds that Retry-After asks to wait, given as a number or a date; None if it is missing or cannot be read."""
    found = headers.get("Retry-After", "").strip()
    if found.isdecimal():
        return float(found[:10])
    try:
        return max(0.0, (parsedate_to_datetime(found) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):  # no date, one without a zone, one of no calendar
        return None
