"""Responses of web servers: their headers, and the media type of their body."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import collapse_rfc2231_value, parsedate_to_datetime
from urllib.parse import unquote, urlsplit

import httpx

from indexer.errors import FetchError
from indexer.network.content_codings import is_text
from indexer.network.urls import normalise, on_site, origin
from indexer.read.extraction import language_of, refresh_in
from indexer.read.formats import CONTENT_TYPES, OPENAPI, content_type_of, is_openapi, reader_of
from indexer.records import Page

_MAX_HEADER_LENGTH = 1_000
HEAD_LENGTH = 1_024
# headers that describe the page, or limit what its scripts may do with it
_PAGE_HEADERS = frozenset(
    b"etag last-modified content-language x-robots-tag refresh "
    b"access-control-allow-origin access-control-allow-credentials".split()
)
_AGENT_TOKEN = re.compile(r"\s*([\w-]+|\*(?=\s|$))")
_WITH_VALUES = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+*-]+")
# types that servers use for any content: application/octet-stream, binary/octet-stream, application/force-download, …
_VAGUE = re.compile(
    r"$|(?!(?:application|audio|font|image|message|model|multipart|text|video)/)|.*(?:octet|download|unknown|binary)"
)
MARKDOWN = frozenset({"text/markdown", "text/mdx"})
_LLMS = frozenset({"llms.txt", "llms-full.txt"})  # Markdown, by the convention of llmstxt.org
_BINARY_READERS = frozenset({"pdf", "word", "slides", "sheets", "epub"})
_DATA_SUFFIXES = ("json", "yaml", "yml")
_BLANKS = b" \t\r\n\f"
_MARKUP = re.compile(
    rb"<(?:!doctype\s+html|html|head|title|meta|body|frameset|script|style|h1|div|table|p)(?=[\s/>])", re.IGNORECASE
)
_LIST = re.compile(rb"<(?:!doctype\s+rss|(?:[\w.-]{1,40}:)?(?:urlset|sitemapindex|rss|feed|rdf))[\s>]", re.IGNORECASE)
_ADDRESS = re.compile(rb"https?://\S+$", re.IGNORECASE)


class PageUnavailable(FetchError):
    """A page that may be available later: no connection, no complete response in time, HTTP 429 or 5xx."""

    def __init__(self, reason: str, *, status: int | None = None, retry: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason, status=status, retry=retry)
        self.pause = pause  # seconds


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a server after redirects, with its decoded body and its `page_headers`."""

    url: str
    body: bytes
    content_type: str
    charset: str | None
    headers: httpx.Headers
    fetched_at: str  # ISO 8601, UTC
    is_unchanged: bool = False  # HTTP 304

    def as_page(self, source: str, requested: str) -> Page:
        """Return the response as a page of a source; `requested` is the address before redirects."""
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
            language=content_language(self.headers),
        )


def page_headers(headers: httpx.Headers, redact: Callable[[bytes], bytes]) -> httpx.Headers:
    """Return the headers that describe the page, without secrets."""
    return httpx.Headers([(name, redact(value)) for name, value in headers.raw if name.lower() in _PAGE_HEADERS])


def refresh_target(url: str, headers: httpx.Headers) -> str | None:
    """Return the address that a Refresh header leads to at once, or None."""
    seconds, target = refresh_in(headers.get("Refresh", "")) or (1, "")
    address = normalise(url, target) if seconds == 0 else None
    address = on_site(address, origin(url)) if address else None
    return address if address != url else None


def content_language(headers: httpx.Headers) -> str | None:
    """Return the language in Content-Language, or None if it has several: they name the audience."""
    languages = headers.get("Content-Language", "")[:_MAX_HEADER_LENGTH]
    return language_of(languages) if "," not in languages else None


def retry_after(headers: httpx.Headers) -> float | None:
    """Return the seconds to wait by Retry-After (a number or a date), or None if it is missing or invalid."""
    text = headers.get("Retry-After", "")[:_MAX_HEADER_LENGTH].strip()
    if text.isdecimal():
        return float(text[:10])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):  # no valid date, or one without a time zone
        return None


def x_robots_directives(headers: httpx.Headers) -> set[str]:
    """Return the directives of X-Robots-Tag headers in lower case, without those for other crawlers."""
    directives: set[str] = set()
    for value in headers.get_list("X-Robots-Tag"):
        is_ours = True
        for word in value.lower().split(","):
            agent, colon, rest = map(str.strip, word.partition(":"))
            if colon and agent[:1].isalpha() and agent not in _WITH_VALUES:  # not the colon of a time
                is_ours, word = product_token(agent) == "pilotlight", rest
            if is_ours:
                directives.add(word.strip())
    return directives


def product_token(agent: str) -> str | None:
    """Return the name of a user agent in lower case without its version, or `*`. None if there is no name."""
    token = _AGENT_TOKEN.match(agent)
    return token[1].lower() if token else None


def parse_content_type(header: str) -> tuple[str, str | None]:
    """Return the media type of a Content-Type header, or an empty string, and its charset."""
    match = _MEDIA_TYPE.match(header.strip().lower())
    return match[0] if match else "", _parameter(header, "charset") or None


def file_names(url: str, disposition: str) -> tuple[str, ...]:
    """Return the lower-case file names in a Content-Disposition header and in an address."""
    paths = (_parameter(disposition, "filename"), urlsplit(url).path)
    names = (unquote(path).replace("\\", "/").rpartition("/")[2].lower() for path in paths)
    return tuple(name for name in names if name)


def detect_media_type(declared: str, names: tuple[str, ...], body: bytes) -> str:
    """Return the media type of a body. If the declared type is vague or wrong, detect it by names and first bytes."""
    named_type = next(filter(None, map(content_type_of, names)), "")
    if (registered := declared.replace("/x-", "/", 1)) in CONTENT_TYPES:  # text/x-markdown
        declared = registered if declared not in CONTENT_TYPES else declared
    head, is_vague = body[:HEAD_LENGTH], _VAGUE.match(declared) is not None
    if head.lstrip(b"\xef\xbb\xbf\x00" + _BLANKS).startswith(b"%PDF-"):
        return "application/pdf"
    is_markup, has_text = _begins_with(_MARKUP, head), is_text(head)
    if not is_markup and is_openapi(head) and any(text.endswith(_DATA_SUFFIXES) for text in (declared, *names)):
        return OPENAPI
    is_page = declared.startswith(("text/", "application/xhtml"))
    if is_page and has_text and not is_markup and (named_type in MARKDOWN or not _LLMS.isdisjoint(names)):
        return named_type if named_type in MARKDOWN else "text/markdown"
    is_mislabelled = not is_page and (is_markup or (has_text and reader_of(declared) in _BINARY_READERS))
    if declared in CONTENT_TYPES and not is_mislabelled:
        # a server that knows no media types sends pages as plain text
        return "text/html" if declared == "text/plain" and named_type == "text/html" and is_markup else declared
    if not (is_vague or declared.startswith("application/") or declared == "text/xml"):
        return declared
    if not has_text:
        return named_type if reader_of(named_type) in _BINARY_READERS else declared
    if is_markup:
        return "text/html"
    if named_type in CONTENT_TYPES and reader_of(named_type) not in _BINARY_READERS:
        return named_type
    is_unnamed = not any("." in name for name in names) and not head.lstrip(_BLANKS).startswith(b"<")
    return "text/plain" if is_vague and is_unnamed else declared


def looks_like_sitemap(body: bytes) -> bool:
    """Return whether a body begins like a sitemap or feed, or has an address on each line."""
    head = body[:HEAD_LENGTH].lstrip(b"\xef\xbb\xbf" + _BLANKS)
    if head.startswith(b"<"):
        return _begins_with(_LIST, head)
    lines = [line.strip() for line in head.splitlines()]
    return bool(head) and all(_ADDRESS.match(line) for line in (lines[:-1] or lines) if line)


def _parameter(header: str, name: str) -> str:
    message = Message()
    message["Content-Type"] = header[:_MAX_HEADER_LENGTH]
    try:
        return collapse_rfc2231_value(message.get_param(name, ""))
    except (LookupError, TypeError, ValueError):  # an unknown charset, or pieces without numbers
        return ""


def _begins_with(element: re.Pattern[bytes], body: bytes) -> bool:
    """Return whether the first element of a body matches, after XML declarations, comments and blanks."""
    head = body[:HEAD_LENGTH].lstrip(b"\xef\xbb\xbf" + _BLANKS)
    while end := next((end for begin, end in ((b"<?", b"?>"), (b"<!--", b"-->")) if head.startswith(begin)), None):
        head = head.partition(end)[2].lstrip(_BLANKS)
    return element.match(head) is not None
