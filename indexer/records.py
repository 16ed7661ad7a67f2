"""The typed records that flow through a build: Page → Document → Chunk, with Skip and Failure beside them."""

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

SEPARATOR = " › "  # between the headings of a path
COLUMNS = " | "  # between the cells of a table's row
Readers = tuple[str, ...] | None  # names of an access list; of nobody, it is empty; None: everybody


class AccessLists(NamedTuple):
    """Who may read a document, as `user:NAME` and `group:NAME`: whoever is in both lists, as far as there are any."""

    given: Readers = None  # by its sender, or by what lies beside it
    declared: Readers = None  # by itself


EVERYBODY = AccessLists()


class Stated(NamedTuple):
    """What the sender of a document says of it, which goes before what the document says of itself."""

    title: str = ""
    language: str | None = None  # primary subtag in lower case
    date: str | None = None  # YYYY-MM-DD
    metadata: tuple[tuple[str, tuple[str, ...]], ...] = ()  # names, each with its values
    access: Readers = None  # who may read it, see `AccessLists`


NOTHING_STATED = Stated()


@dataclass(frozen=True, slots=True)
class Declared:
    """Facts from the head of an HTML page or the front matter of a Markdown one."""

    language: str | None = None  # primary subtag in lower case
    date: str | None = None  # YYYY-MM-DD
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    access: Readers = None  # who may read it; None: everybody


@dataclass(frozen=True, slots=True)
class Extraction:
    """The readable part of a document."""

    title: str | None
    sections: tuple["Section", ...]
    declared: Declared = field(default_factory=Declared)
    is_link_list: bool = False  # an index or a table of contents rather than text
    detected: str | None = None  # language of the text, where it does not declare one and it is plain
    scanned: tuple[int, ...] = ()  # pages, from 1, that show something but have no text
    notes: tuple[str, ...] = ()  # on what was guessed or left out, see `indexer.text.reader_notes`


class PageBlocks(NamedTuple):
    """The blocks of a page that its site's template is learnt from, as hashes; see `indexer.read.html.template`."""

    about: int  # of the page's headings
    blocks: tuple[tuple[int, int, int, bool], ...]  # outer place, place, text, and whether it is mostly links


@dataclass(frozen=True, slots=True)
class PageReading:
    """The text of a page that was read together with its links."""

    content: Extraction | ParseError | None  # None if only its blocks are wanted
    template: str = ""  # of its site, left out of the text
    blocks: PageBlocks | None = None  # None if they are not wanted


@dataclass(frozen=True, slots=True)
class Page:
    """One fetched resource, as bytes."""

    url: str  # final url after redirects, normalised, without fragment; file:// for a local file
    source: str  # the source given by the user that led here
    body: bytes
    content_type: str  # media type in lower case, without parameters
    charset: str | None = None  # from the Content-Type header, if it named one
    etag: str | None = None
    last_modified: str | None = None
    fetched_at: str = ""  # ISO 8601, UTC
    requested: str = ""  # the address that led here, before redirects or a link template; empty for a file
    links: tuple[str, ...] = ()  # normalised addresses on the page's own site
    noindex: bool = False
    left_out: str = "noindex"  # why it is not indexed, if it is not
    note: str = ""  # on what was guessed or not followed, counted as those of `indexer.text.reader_notes`
    language: str | None = None  # primary subtag from the Content-Language header, if it named one
    template: str = ""  # what pages of its site have around their text, see `indexer.sources.templates`
    stated: Stated = NOTHING_STATED
    content_hash: str = ""  # SHA-256 hex of all that parsing reads of it, taken once, when it is empty
    reading: PageReading | None = field(default=None, compare=False, repr=False)  # None if it is still to be read

    def __post_init__(self) -> None:
        if not self.content_hash:
            more = f";{self.language}" if self.language else ""
            stated = f";{json.dumps(self.stated)}" if self.stated != NOTHING_STATED else ""
            head = f"{self.content_type};{self.charset}{more}{stated}\n"
            digest = hashlib.sha256(head.encode("utf-8", "replace"))
            digest.update(self.body)
            object.__setattr__(self, "content_hash", digest.hexdigest())


class PageState(StrEnum):
    """What a build did with a page."""

    INDEXED = "indexed"
    SKIPPED = "skipped"
    FAILED = "failed"


class Outcome(NamedTuple):
    """The state of a page after a build, with the notes on an indexed one, or the reason for another."""

    state: PageState
    reasons: tuple[str, ...] = ()

    @property
    def is_indexed(self) -> bool:
        """Return whether the page became a document."""
        return self.state == PageState.INDEXED


@dataclass(frozen=True, slots=True)
class PageRecord:
    """The record of a page that the next build needs, whether or not it became a document."""

    url: str  # after redirects
    source: str
    requested: str  # before redirects
    etag: str | None
    last_modified: str | None  # only if it is old enough to tell one version from the next
    content_hash: str  # that of the page
    links: tuple[str, ...]
    noindex: bool
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Known:
    """A page that an earlier build has read and that was not read again."""

    record: PageRecord  # with the source that led to it this time
    kept: str | None = None  # why it could not be read this time; None if it is unchanged

    @property
    def url(self) -> str:
        """Return the address after redirects."""
        return self.record.url

    @property
    def links(self) -> tuple[str, ...]:
        """Return the addresses that the page linked to."""
        return self.record.links

    @property
    def content_hash(self) -> str:
        """Return the hash of the page when it was read."""
        return self.record.content_hash


@dataclass(frozen=True)
class _NotRead:
    url: str
    reason: str  # one line, without what a terminal would obey

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))


class Skip(_NotRead):
    """A page or file left out on purpose; the same reason groups in the report."""


class Failure(_NotRead):
    """A page or file that should have been read but could not be."""


Item = Page | Known | Skip | Failure
"""The items that a source gives, in its order."""


class TextBlock(NamedTuple):
    """A block of code or a table in a text, by its characters [start, end)."""

    start: int
    end: int
    kind: Literal["code", "table"]


class Whole(NamedTuple):
    """A part of a section's text that one passage should have whole: a block of code, a table, or a row of lines."""

    start: int  # its first character
    end: int  # the one after its last
    head: str | None = None  # of a table: the row that names its columns, or nothing; of code: None


@dataclass(frozen=True, slots=True)
class Section:
    """A run of text under one heading."""

    path: tuple[str, ...]  # heading texts from the outermost to the nearest
    anchor: str | None  # id to append to the url as a fragment
    text: str
    marks: tuple[tuple[int, str], ...] = ()  # ids further on: from which character of the text each is the nearest
    wholes: tuple[Whole, ...] = ()  # in order, none within another


def anchor_at(section: Section, place: int) -> str | None:
    """Return the nearest id before a character of a section's text."""
    before = bisect_right(section.marks, place, key=itemgetter(0))
    return section.marks[before - 1][1] if before else section.anchor


class ScanCounts(NamedTuple):
    """What OCR made of the pages of a document that have no text, and of which it made nothing."""

    pages: int = 0  # that were read
    lines: int = 0  # found on them
    left_out: int = 0  # lines of which it was not sure enough
    unread: tuple[tuple[int, str], ...] = ()  # numbers of pages, from 1, and why


NO_SCANS = ScanCounts()


@dataclass(frozen=True, slots=True)
class Document:
    """A page as text: its title, sections and metadata."""

    url: str
    source: str
    title: str
    sections: tuple[Section, ...]
    content_hash: str  # SHA-256 hex of the page body
    etag: str | None
    last_modified: str | None
    fetched_at: str
    content_type: str = "text/html"  # media type in lower case, without parameters
    language: str | None = None  # primary subtag in lower case: "en", not "en-GB"
    date: str | None = None  # YYYY-MM-DD: when it was last changed, else published, as far as it says
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the author's own
    scans: ScanCounts = NO_SCANS
    access: AccessLists = EVERYBODY
    notes: tuple[str, ...] = ()  # on what was guessed or left out, see `indexer.text.reader_notes`


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage short enough for the model."""

    id: str  # stable: from document url, text and repetition count
    url: str  # document url with the section's anchor as fragment
    document_url: str
    title: str
    section: str  # heading path joined with " › "
    text: str  # what is shown
    embedded_text: str  # what the model reads: heading context + text; empty where the vector is carried over
    content_hash: str  # SHA-256 hex of embedded_text
    tokens: int  # of embedded_text, special tokens included
    position: int  # 0, 1, … within the document
    blocks: tuple[TextBlock, ...] = ()  # code and tables of the text, in order
    token_ids: npt.NDArray[np.int32] | None = field(default=None, repr=False, compare=False)  # of embedded_text
