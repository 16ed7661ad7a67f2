"""Errors of the indexer; see `embedder.errors` for the whole tree.

IndexerError
├── ConfigError, FilterError, SynonymsError, MemoryShort
├── SourceError: CredentialsError, RendererMissing, SessionEnded
├── FetchError: NotWanted
├── ParseError, NothingToIndex, VectorError
├── IndexMissing, IndexCorrupt, IndexUnreadable, IndexUnwritable, BuildLocked, ArchiveError
├── ClusterError
└── StoreError: StoreAddressError, StoreUnreachable, StoreRefused
"""

from embedder.errors import PilotlightError
from indexer.text.cleaning import one_line


class IndexerError(PilotlightError):
    """Base of the indexer's errors."""


class ConfigError(IndexerError):
    """A limit or chunk size that makes no sense: names the field, the value and what is allowed."""


class SourceError(IndexerError):
    """A source that cannot be read at all: an unreachable site, no such folder, a refused address."""


class CredentialsError(SourceError):
    """A secret that cannot be used; never says what it is."""


class RendererMissing(SourceError):
    """Pages are to be drawn, and the package or the browser for it is missing or does not start."""


class SessionEnded(SourceError):
    """A site that asks to log in, although it was sent credentials."""


class FetchError(IndexerError):
    """One page that could not be fetched; `status` is the HTTP status if there was an answer."""

    def __init__(self, reason: str, *, status: int | None = None, retry: bool = False) -> None:
        super().__init__(one_line(reason))  # it may quote what a site has said
        self.status = status
        self.retry = retry  # whether trying again may help


class NotWanted(FetchError):
    """One page that was reached but is not for the index: by its type, its scope or robots.txt."""


class ParseError(IndexerError):
    """One page that cannot be read; the build records it and goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))  # it may quote what a document has said


class NothingToIndex(IndexerError):
    """The sources gave no text; the live generation is left as it is."""


class SynonymsError(IndexerError):
    """A file of synonyms with a rule that cannot be read; names file and line."""


class FilterError(IndexerError):
    """A filter that cannot be used; `field` is the path of what is wrong, such as "filter.language"."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field
        self.detail = detail  # goes on where the name of the field ends


class MemoryShort(IndexerError):
    """A build may not have the memory that it needs; says what limits it."""


class VectorError(IndexerError):
    """The embedder gave vectors that cannot be stored: NaN, infinity, or of the wrong shape."""


class IndexMissing(IndexerError):
    """There is no published generation in the folder."""


class IndexCorrupt(IndexerError):
    """A file of a generation is missing, truncated or altered."""


class IndexUnreadable(IndexerError):
    """A file of a generation cannot be read, for a reason that says nothing about the file and may pass."""


class IndexUnwritable(IndexerError):
    """The index folder cannot be written, is full, or holds something else."""


class BuildLocked(IndexerError):
    """Another build holds the writer lock."""


class ClusterError(IndexerError):
    """The machines that are to build cannot be reached, were lost, or would not give the same index as this one."""


class ArchiveError(IndexerError):
    """An archive that cannot be written, or that is not what `pilotlight export` wrote."""


class StoreError(IndexerError):
    """A place of generations outside the index folder cannot do what it is asked."""


class StoreAddressError(StoreError):
    """An address that names no store, or one whose extra is not installed."""


class StoreUnreachable(StoreError):
    """A store that gives no answer, or not in time."""


class StoreRefused(StoreError):
    """A store that does not know the credentials, or refuses a request."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 page`, `2 pages`, `1,000 pages`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"


def plain(number: float) -> str:
    """Return a number in digits, never in powers of ten: `100,000,000`, `0.01`."""
    return f"{number:,.16g}"
