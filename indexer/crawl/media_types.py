"""The media type of an answer: by its header, and where that says nothing or is wrong, by its name and first bytes."""

import re
from email.message import Message
from email.utils import collapse_rfc2231_value
from urllib.parse import unquote, urlsplit

from indexer.encodings import is_text
from indexer.read.formats import CONTENT_TYPES, content_type_of, reader_of

HEAD = 1_024  # bytes by which `may_be_read` decides
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+*-]+")
# Types that servers send with anything: application/octet-stream, binary/octet-stream, application/force-download, …
_VAGUE = re.compile(
    r"$|(?!(?:application|audio|font|image|message|model|multipart|text|video)/)|.*(?:octet|download|unknown|binary)"
)
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OFFICE = "application/vnd.openxmlformats-officedocument"
_MAIN_PARTS = {  # of the archives that Office files and books are
    b"word/document": f"{_OFFICE}.wordprocessingml.document",
    b"xl/workbook": f"{_OFFICE}.spreadsheetml.sheet",
    b"ppt/presentation": f"{_OFFICE}.presentationml.presentation",
    b"META-INF/container.xml": "application/epub+zip",
}
_FIRST_PARTS = (b"[Content_Types].xml", b"_rels/", b"docProps/", *_MAIN_PARTS)
_WORKBOOKS = ("Workbook".encode("utf-16-le"), "Book".encode("utf-16-le"))
_STATED = re.compile(rb".{26}\x08\x00.{2}mimetype([\w./+-]+)", re.DOTALL)  # the first entry of EPUB and OpenDocument
_BINARY = frozenset({"pdf", "word", "slides", "sheets", "epub"})  # readers of formats that are no text
_BLANKS = b" \t\r\n\f"
_MARKUP = re.compile(
    rb"<(?:!doctype\s+html|html|head|title|meta|body|frameset|script|style|h1|div|table|p)(?=[\s/>])", re.IGNORECASE
)

_LIST = re.compile(rb"<(?:!doctype\s+rss|(?:[\w.-]{1,40}:)?(?:urlset|sitemapindex|rss|feed|rdf))[\s>]", re.IGNORECASE)
_ADDRESS = re.compile(rb"https?://\S+$", re.IGNORECASE)


def media_type(header: str) -> tuple[str, str | None]:
    """Return the media type and the charset that a Content-Type header names; the type is empty where it names none."""
    found = _MEDIA_TYPE.match(header.strip().lower())
    return found[0] if found else "", _parameter(header, "charset") or None


def may_be_read(declared: str, names: tuple[str, ...], head: bytes) -> bool:
    """Return whether it is worth to receive all of a body, whose first bytes are there; see `actual_type`."""
    may_be_office = head.startswith(_ZIP) and any(part in head for part in _FIRST_PARTS)
    return may_be_office or head.startswith(_OLE) or actual_type(declared, names, head) in CONTENT_TYPES


def actual_type(declared: str, names: tuple[str, ...], body: bytes) -> str:
    """Return the media type of a body.

    Args:
        declared: media type of its header, or empty.
        names: that it may have: of the Content-Disposition header and in its address.
        body: all of it.
    """
    named = next(filter(None, map(content_type_of, names)), None)
    if (binary := _binary_type(body, named)) is not None:
        return binary
    is_markup, has_text = _is_markup(body), is_text(body)
    is_page = declared.startswith(("text/", "application/xhtml"))
    if declared in CONTENT_TYPES and (is_page or not (is_markup or (has_text and _is_binary(declared)))):
        # a server that knows no media types sends pages as plain text
        return "text/html" if declared == "text/plain" and named == "text/html" and is_markup else declared
    is_vague = _VAGUE.match(declared) is not None
    if not has_text or not (is_vague or declared.startswith("application/") or declared == "text/xml"):
        return declared
    if is_markup:
        return "text/html"
    if named in CONTENT_TYPES and not _is_binary(named):
        return named
    is_unnamed = not any("." in name for name in names) and not body.lstrip(_BLANKS).startswith(b"<")
    return "text/plain" if is_vague and is_unnamed else declared


def names_of(url: str, disposition: str) -> tuple[str, ...]:
    """Return the file names in a Content-Disposition header and in an address, in lower case, the likeliest first."""
    stated = _parameter(disposition, "filename")
    path, query = urlsplit(url)[2:4]
    in_query = [part.rpartition("=")[2] for part in query.split("&")]
    names = (unquote(name).replace("\\", "/").rpartition("/")[2].lower() for name in (stated, path, *in_query))
    return tuple(name for name in names if name)


def _parameter(header: str, name: str) -> str:
    """Return a parameter of a header, empty if there is none that can be read."""
    message = Message()
    message["Content-Type"] = header
    try:
        return collapse_rfc2231_value(message.get_param(name, ""))
    except (LookupError, TypeError, ValueError):  # of a charset that there is not, or parts without numbers
        return ""


def _binary_type(body: bytes, named: str | None) -> str | None:
    """Return the type of a body that begins as PDF, Office, EPUB and OpenDocument files do, or None."""
    if body.startswith(b"%PDF-") or body[:HEAD].lstrip(b"\xef\xbb\xbf\x00" + _BLANKS).startswith(b"%PDF-"):
        return "application/pdf"
    if body.startswith(_OLE):
        return "application/vnd.ms-excel" if any(name in body for name in _WORKBOOKS) else None
    if not body.startswith(_ZIP):
        return None
    if (stated := _STATED.match(body)) is not None:
        return next((kind for kind in CONTENT_TYPES if stated[1].startswith(kind.encode())), None)
    found = (kind for part, kind in _MAIN_PARTS.items() if part in body)
    return next(found, named if named is not None and _is_binary(named) else None)


def _is_binary(content_type: str) -> bool:
    return reader_of(content_type) in _BINARY


def is_list(body: bytes) -> bool:
    """Return whether a body begins as a sitemap or feed, or is a text of addresses, one a line."""
    head = body[:HEAD].lstrip(b"\xef\xbb\xbf" + _BLANKS)
    if head.startswith(b"<"):
        return _LIST.match(head, _after_prolog(head)) is not None
    lines = [line.strip() for line in head.splitlines()]
    return bool(head) and all(_ADDRESS.match(line) for line in (lines[:-1] or lines) if line)


def _is_markup(body: bytes) -> bool:
    head = body[:HEAD].lstrip(b"\xef\xbb\xbf" + _BLANKS)
    return _MARKUP.match(head, _after_prolog(head)) is not None


def _after_prolog(head: bytes) -> int:
    """Return where the first element begins: after an XML declaration, instructions, comments and blanks."""
    at = 0
    while True:
        while at < len(head) and head[at] in _BLANKS:
            at += 1
        end = next((end for begin, end in ((b"<?", b"?>"), (b"<!--", b"-->")) if head.startswith(begin, at)), None)
        if end is None:
            return at
        found = head.find(end, at)
        at = len(head) if found < 0 else found + len(end)
