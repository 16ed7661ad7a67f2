"""The typed records that flow through a build: Page → Document → Chunk, with Skip and Failure beside them."""

from dataclasses import dataclass

SEPARATOR = " › "  # between the headings of a path


@dataclass(frozen=True, slots=True)
class Page:
    """One fetched resource, as bytes."""

    url: str  # final url after redirects, normalised, without fragment; file:// for a local file
    source: str  # the source given by the user that led here
    body: bytes
    content_type: str  # media type in lower case, without parameters
    charset: str | None  # from the Content-Type header, if it named one
    etag: str | None
    last_modified: str | None
    fetched_at: str  # ISO 8601, UTC


@dataclass(frozen=True, slots=True)
class Skip:
    """A page or file left out on purpose; the same reason groups in the report."""

    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A page or file that should have been read but could not be."""

    url: str
    reason: str


@dataclass(frozen=True, slots=True)
class Section:
    """A run of text under one heading."""

    path: tuple[str, ...]  # heading texts from the outermost to the nearest
    anchor: str | None  # id to append to the url as a fragment
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """The readable part of a page."""

    url: str
    source: str
    title: str
    sections: tuple[Section, ...]
    content_hash: str  # SHA-256 hex of the page body
    etag: str | None
    last_modified: str | None
    fetched_at: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage short enough for the model."""

    id: str  # stable: from document url, text and repetition count
    url: str  # document url with the section's anchor as fragment
    document_url: str
    title: str
    section: str  # heading path joined with " › "
    text: str  # what is shown
    embedded_text: str  # what the model reads: heading context + text
    tokens: int  # of embedded_text, special tokens included
    position: int  # 0, 1, … within the document
