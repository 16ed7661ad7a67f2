"""Define the data classes of a build, which turns a Page into a Document and its Chunks, or into a Skip or Failure."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.errors import ParseError
from indexer.text.cleaning import one_line

SEPARATOR = " › "  # separates the headings of a path
COLUMNS = " | "  # separates the cells of a row
Readers = tuple[str, ...] | None  # names in an access list; None means everybody


class AccessLists(NamedTuple):
    """Two lists of the users and groups that may read a document, such as `user:ann`. A reader must be in both lists.

    `external` was set by an access file or a client, `declared` by the document itself. None admits everybody.
    """

    external: Readers = None
    declared: Readers = None


EVERYBODY = AccessLists()


class SenderFacts(NamedTuple):
    """Fields that a client has sent with a pushed document. They override the fields in the document itself."""

    title: str = ""
    language: str | None = None
    date: str | None = None
    metadata: tuple[tuple[str, tuple[str, ...]], ...] = ()
    access: Readers = None


NO_SENDER_FACTS = SenderFacts()


@dataclass(frozen=True, slots=True)
class Declared:
    """Fields that a page declares in its HTML head or its front matter."""

    language: str | None = None
    date: str | None = None
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    access: Readers = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """The text and metadata that were extracted from a page or file."""

    title: str | None
    sections: tuple["Section", ...]
    declared: Declared = field(default_factory=Declared)
    is_link_list: bool = False
    link_texts: tuple[tuple[str, str], ...] = ()  # targets and texts of links to other pages
    detected: str | None = None
    scanned: tuple[int, ...] = ()  # page numbers, from 1, of pages without text
    notes: tuple[str, ...] = ()


class PageBlocks(NamedTuple):
    """Hashes of the headings and blocks of a page. Blocks that many pages of a site share are the site's template."""

    headings_hash: int
    blocks: tuple[tuple[int, int, int, bool], ...]  # (parent path hash, path hash, text hash, is mostly links)


@dataclass(frozen=True, slots=True)
class PageReading:
    """The text and blocks of a page, parsed together with its links. The text excludes the template of the site."""

    content: Extraction | ParseError | None  # None if only the blocks were parsed
    template: str = ""
    blocks: PageBlocks | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One fetched resource, as bytes.

    The address of a local file begins with `file://`. `requested` is the address before redirects, and empty for files.
    `links` are on the same site. `note` appears in the report of the build. `language` is the primary subtag of the
    Content-Language header. `content_hash` depends on all data that the parser uses.
    """

    url: str  # final address, normalised, without fragment
    source: str
    body: bytes
    content_type: str  # media type in lower case, without parameters
    charset: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    fetched_at: str = ""  # ISO 8601, UTC
    requested: str = ""
    links: tuple[str, ...] = ()
    noindex: bool = False
    skip_reason: str = "noindex"
    note: str = ""
    language: str | None = None
    template: str = ""
    sender_facts: SenderFacts = NO_SENDER_FACTS
    content_hash: str = ""  # computed if empty
    reading: PageReading | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.content_hash:
            language = f";{self.language}" if self.language else ""
            facts = f";{json.dumps(self.sender_facts)}" if self.sender_facts != NO_SENDER_FACTS else ""
            head = f"{self.content_type};{self.charset}{language}{facts}\n"
            digest = hashlib.sha256(head.encode("utf-8", "replace"))
            digest.update(self.body)
            object.__setattr__(self, "content_hash", digest.hexdigest())


class PageState(StrEnum):
    """The result of a build for one page."""

    INDEXED = "indexed"
    SKIPPED = "skipped"
    FAILED = "failed"


class Outcome(NamedTuple):
    """The state of a page after a build. `reasons` has notes on an indexed page, or says why it was not indexed."""

    state: PageState
    reasons: tuple[str, ...] = ()

    @property
    def is_indexed(self) -> bool:
        """Return whether the page became a document."""
        return self.state == PageState.INDEXED


@dataclass(frozen=True, slots=True)
class PageRecord:
    """Data about a page that an index stores for the next build.

    If a page is unchanged or cannot be read now, the next build uses this record instead of a Page. `failure` is the
    reason why the page cannot be read, and is not stored.
    """

    url: str
    source: str
    requested: str
    etag: str | None
    last_modified: str | None  # None if missing or not a valid header value
    content_hash: str
    links: tuple[str, ...]
    noindex: bool
    outcome: Outcome
    failure: str | None = None


@dataclass(frozen=True)
class _SkippedOrFailed:
    url: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))


class Skip(_SkippedOrFailed):
    """A page or file that was excluded on purpose."""


class Failure(_SkippedOrFailed):
    """A page or file that could not be read."""


Item = Page | PageRecord | Skip | Failure
"""The items of a source."""


class TextBlock(NamedTuple):
    """The position of a code block or table in a text: characters `start` to `end`, exclusive."""

    start: int
    end: int
    kind: Literal["code", "table"]


class SectionBlock(NamedTuple):
    """A code block, table or row that should stay in one passage: characters `start` to `end` (exclusive)."""

    start: int
    end: int
    head: str | None = None  # header row of a table, or ""; None for code


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading."""

    path: tuple[str, ...]  # headings, outermost first
    anchor: str | None
    text: str
    marks: tuple[tuple[int, str], ...] = ()  # (offset, id) of each HTML element with an id
    blocks: tuple[SectionBlock, ...] = ()


def anchor_at(section: Section, offset: int) -> str | None:
    """Return the id of the last element that begins at or before an offset in the text, or else the section's id."""
    before = bisect_right(section.marks, offset, key=itemgetter(0))
    return section.marks[before - 1][1] if before else section.anchor


class ScanCounts(NamedTuple):
    """Results of OCR on the scanned pages of a document. `left_out` counts lines dropped for low confidence."""

    pages: int = 0
    lines: int = 0
    left_out: int = 0
    unread: tuple[tuple[int, str], ...] = ()  # page numbers, from 1, and reasons


NO_SCANS = ScanCounts()


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a page in sections, with its title and metadata."""

    url: str
    source: str
    title: str
    sections: tuple[Section, ...]
    content_hash: str
    etag: str | None
    last_modified: str | None
    fetched_at: str
    content_type: str = "text/html"  # media type in lower case, without parameters
    language: str | None = None  # primary subtag in lower case: "en", not "en-GB"
    date: str | None = None  # YYYY-MM-DD of the last change, or else of publication
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scans: ScanCounts = NO_SCANS
    access: AccessLists = EVERYBODY
    notes: tuple[str, ...] = ()
    link_texts: tuple[tuple[str, str], ...] = ()  # addresses of pages on the same site, and texts of links to them


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage that fits into the model's input. `content_hash` and `tokens` are computed from `embedded_text`."""

    id: str  # hash of document url, text, and number of earlier chunks with this text
    url: str
    document_url: str
    title: str
    section: str
    text: str
    embedded_text: str  # title, headings and text; empty if the vector is copied from the previous build
    content_hash: str
    tokens: int
    position: int
    blocks: tuple[TextBlock, ...] = ()
    token_ids: npt.NDArray[np.int32] | None = field(default=None, repr=False, compare=False)
