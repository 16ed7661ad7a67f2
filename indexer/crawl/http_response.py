"""Parse responses of web servers: headers, the media type of the body, and the links of a page to its own site."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import Message
from email.utils import collapse_rfc2231_value, parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from indexer.errors import FetchError, ParseError
from indexer.network.http import is_text
from indexer.network.urls import normalise, on_site, origin
from indexer.read.document_reader import PageParts, read_page_parts
from indexer.read.extraction import language_of, refresh_in
from indexer.read.formats import CONTENT_TYPES, OPENAPI, content_type_of, is_openapi, reader_of
from indexer.read.reader_process import Lend, borrowed
from indexer.records import Page, PageReading
from indexer.text.cleaning import one_line

_MAX_HEADER_LENGTH = 1_000
HEAD_LENGTH = 1_024
# headers that describe the page, and CORS headers, which the browser checks before a script reads the response
_PAGE_HEADERS = frozenset(
    b"etag last-modified content-language x-robots-tag refresh "
    b"access-control-allow-origin access-control-allow-credentials".split()
)
_AGENT_TOKEN = re.compile(r"\s*([\w-]+|\*(?=\s|$))")
_WITH_VALUES = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+*-]+")
# media types that do not identify the content, such as application/octet-stream or application/force-download
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
_FEED = re.compile(rb"<(?:!doctype\s+rss|(?:[\w.-]{1,40}:)?(?:urlset|sitemapindex|rss|feed|rdf))[\s>]", re.IGNORECASE)
_ADDRESS = re.compile(rb"https?://\S+$", re.IGNORECASE)


class PageUnavailable(FetchError):
    """The page may be available later: the connection failed, or the response was late or has status 429 or 5xx."""

    def __init__(self, reason: str, *, status: int | None = None, retry: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason, status=status)
        self.retry = retry  # whether another request may succeed soon
        self.pause = pause  # seconds to wait before the next request


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The final response after redirects. `body` is decompressed, and `headers` are filtered by `page_headers`."""

    url: str
    body: bytes
    content_type: str
    charset: str | None
    headers: httpx.Headers
    fetched_at: str  # ISO 8601, UTC
    is_unchanged: bool = False  # HTTP 304

    def as_page(self, source: str, requested: str) -> Page:
        """Return the response as a page of a source. `requested` is the address before redirects."""
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
    """Return the headers that are in `_PAGE_HEADERS`. `redact` removes secrets from their values."""
    return httpx.Headers([(name, redact(value)) for name, value in headers.raw if name.lower() in _PAGE_HEADERS])


def refresh_target(url: str, headers: httpx.Headers) -> str | None:
    """Return the address to which a Refresh header redirects without a delay, or None."""
    seconds, target = refresh_in(headers.get("Refresh", "")) or (1, "")
    address = normalise(url, target) if seconds == 0 else None
    address = on_site(address, origin(url)) if address else None
    return address if address != url else None


def content_language(headers: httpx.Headers) -> str | None:
    """Return the language in Content-Language, or None. A list is ignored: it describes the audience, not the text."""
    languages = headers.get("Content-Language", "")[:_MAX_HEADER_LENGTH]
    return language_of(languages) if "," not in languages else None


def retry_after(headers: httpx.Headers) -> float | None:
    """Return the seconds to wait according to Retry-After (a number or a date), or None if it is missing or invalid."""
    text = headers.get("Retry-After", "")[:_MAX_HEADER_LENGTH].strip()
    if text.isdecimal():
        return float(text[:10])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):  # no valid date, or a date without a time zone
        return None


def x_robots_directives(headers: httpx.Headers) -> set[str]:
    """Return the directives of X-Robots-Tag headers in lower case. Directives for other crawlers are left out."""
    directives: set[str] = set()
    for value in headers.get_list("X-Robots-Tag"):
        is_ours = True
        for word in value.lower().split(","):
            agent, colon, rest = map(str.strip, word.partition(":"))
            if colon and agent[:1].isalpha() and agent not in _WITH_VALUES:  # a user agent, not a directive or time
                is_ours, word = product_token(agent) == "pilotlight", rest
            if is_ours:
                directives.add(word.strip())
    return directives


def product_token(agent: str) -> str | None:
    """Return the lower-case name of a user agent without its version. Returns `*` unchanged, and None if invalid."""
    token = _AGENT_TOKEN.match(agent)
    return token[1].lower() if token else None


def parse_content_type(header: str) -> tuple[str, str | None]:
    """Return the media type and charset of a Content-Type header. They default to an empty string and None."""
    match = _MEDIA_TYPE.match(header.strip().lower())
    return match[0] if match else "", _parameter(header, "charset") or None


def file_names(url: str, disposition: str) -> tuple[str, ...]:
    """Return the lower-case file names in a Content-Disposition header and in an address."""
    paths = (_parameter(disposition, "filename"), urlsplit(url).path)
    names = (unquote(path).replace("\\", "/").rpartition("/")[2].lower() for path in paths)
    return tuple(name for name in names if name)


def detect_media_type(declared: str, names: tuple[str, ...], body: bytes) -> str:
    """Return the media type of a body. A vague or wrong declared type is corrected by file names and first bytes."""
    named_type = next(filter(None, map(content_type_of, names)), "")
    if (registered := declared.replace("/x-", "/", 1)) in CONTENT_TYPES:  # such as text/x-markdown
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
        # some servers declare HTML pages as plain text
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
    """Return whether a body begins like a sitemap or feed, or consists of one address per line."""
    head = body[:HEAD_LENGTH].lstrip(b"\xef\xbb\xbf" + _BLANKS)
    if head.startswith(b"<"):
        return _begins_with(_FEED, head)
    lines = [line.strip() for line in head.splitlines()]
    return bool(head) and all(_ADDRESS.match(line) for line in (lines[:-1] or lines) if line)


def _parameter(header: str, name: str) -> str:
    message = Message()
    message["Content-Type"] = header[:_MAX_HEADER_LENGTH]
    try:
        return collapse_rfc2231_value(message.get_param(name, ""))
    except (LookupError, TypeError, ValueError):  # an unknown charset, or RFC 2231 continuations without numbers
        return ""


def _begins_with(element: re.Pattern[bytes], body: bytes) -> bool:
    """Return whether the first element of a body matches a pattern. Skips XML declarations and comments."""
    head = body[:HEAD_LENGTH].lstrip(b"\xef\xbb\xbf" + _BLANKS)
    while end := next((end for begin, end in ((b"<?", b"?>"), (b"<!--", b"-->")) if head.startswith(begin)), None):
        head = head.partition(end)[2].lstrip(_BLANKS)
    return element.match(head) is not None


MARKUP = frozenset({"text/html", "application/xhtml+xml"})
LLMS = "/llms.txt"
ONLY_LINKS = PageParts(links=True)
_MAX_KIND_LENGTH = 50


@dataclass(frozen=True, slots=True)
class Links:
    """The links and robots directives of one page. All addresses are normalised.

    `urls` and `canonical` are on the site of the page. `urls` is in document order, without duplicates. `refresh` is
    the target of an immediate redirect in the markup. `followed_kind` is not empty if the links of the page are
    followed but its text is not indexed. Then it names the kind of page, such as a frameset.
    """

    urls: tuple[str, ...]
    noindex: bool = False
    canonical: str | None = None
    asks_password: bool = False
    refresh: str | None = None
    followed_kind: str = ""
    why_no_links: str = ""
    needs_rendering: bool = False
    reading: PageReading | None = None


def read_links(page: Page, lend: Lend = borrowed, requested: PageParts = ONLY_LINKS, *, former_site: str = "") -> Links:
    """Read the links and other `requested` parts of a page in a reader process, which `lend` provides.

    Links to `former_site` are changed to the site of the page. Raises FetchError if the markup cannot be parsed, or if
    parsing takes too much time or memory.
    """
    if page.content_type not in MARKUP | MARKDOWN:
        return Links(())
    try:
        with lend() as process:
            fields, needs_rendering, reading = read_page_parts(page, replace(requested, links=True), process)
        return replace(_checked_links(page, fields, former_site), needs_rendering=needs_rendering, reading=reading)
    except ParseError as error:
        raise FetchError(f"its links cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FetchError("its links cannot be read: the reader process returned invalid data") from error


def _checked_links(page: Page, fields: Mapping[str, Any], former_site: str) -> Links:
    noindex, nofollow = indexing_rules({str(word) for word in fields["directives"]})
    base = normalise(page.url, fields["base"] or "") or page.url
    site, former_host = origin(page.url), urlsplit(former_site).netloc

    def absolute(href: str) -> str | None:
        url = normalise(base, href)
        if url is not None and former_host and urlsplit(url).netloc == former_host:
            url = f"{site}{url.removeprefix(origin(url))}"
        return None if url is None else on_site(url, site)

    canonical = absolute(fields["canonical"]) if fields["canonical"] else None
    if canonical is not None and (canonical == page.url or origin(canonical) != site):
        canonical = None
    is_listing = bool(fields["is_listing"])
    below = normalise(base, ".") or base if is_listing else f"{site}/"
    absolute_urls = (url for url in map(absolute, fields["hrefs"]) if url is not None and url.startswith(below))
    urls = dict.fromkeys(url for url in absolute_urls if not (is_listing and "?" in url))
    refresh = absolute(str(fields["refresh"])) if fields["refresh"] else None
    kind = one_line(str(fields["leads_on"]))[:_MAX_KIND_LENGTH] or "a list of pages" * page.url.endswith(LLMS)
    return Links(
        () if nofollow else tuple(urls),
        noindex or bool(kind),
        canonical,
        asks_password=bool(fields["asks_password"]),
        refresh=refresh if refresh != page.url else None,
        followed_kind=kind,
        why_no_links=_why_no_links(fields, has_links=bool(urls), nofollow=nofollow),
    )


def indexing_rules(directives: set[str]) -> tuple[bool, bool]:
    """Return whether robots directives include `noindex`, and whether they include `nofollow`."""
    return bool(directives & {"noindex", "none"}), bool(directives & {"nofollow", "none"})


def _why_no_links(fields: Mapping[str, Any], *, has_links: bool, nofollow: bool) -> str:
    if (nofollow and fields["hrefs"]) or (fields["nofollow"] and not fields["hrefs"]):
        return "all its links are nofollow"
    if has_links:
        return ""
    if fields["hrefs"]:
        return "it has only links to other hosts"
    if fields["is_blank"] and fields["has_script"]:
        return "it has no links and hardly any text: its content is rendered by scripts, try --render"
    return "it has no links"
