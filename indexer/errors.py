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
    """A setting has an invalid value."""


class SourceError(IndexerError):
    """A source cannot be read, for example because a site is unreachable or a folder is missing."""


class CredentialsError(SourceError):
    """A secret cannot be used. The message does not quote the secret."""


class RendererMissing(SourceError):
    """The package or browser that renders pages is missing or does not start."""


class SessionEnded(SourceError):
    """A site asks for a login, although credentials were sent."""


class FetchError(IndexerError):
    """A page could not be fetched. `status` is the HTTP status, or None without a response."""

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(one_line(reason))
        self.status = status


class NotWanted(FetchError):
    """A page is excluded by its media type, the `include` and `exclude` patterns, or robots.txt."""


class ParseError(IndexerError):
    """A page cannot be read. The build reports the page and continues."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class NothingToIndex(IndexerError):
    """The sources have no text, so the live index is not replaced."""


class SynonymsError(IndexerError):
    """A rule in a file of synonyms is not valid. The message names the file and the line."""


class FilterError(IndexerError):
    """A filter is not valid. `field` is the path of the invalid field, such as "filter.language"."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.field = field
        self.detail = detail


class MemoryShort(IndexerError):
    """The memory limit is too low for a build. The message names the limit."""


class VectorError(IndexerError):
    """The embedder returned vectors of the wrong shape, or with NaN or infinity."""


class IndexMissing(IndexerError):
    """The index folder contains no published index."""


class IndexCorrupt(IndexerError):
    """A file of an index is missing, truncated or altered."""


class IndexUnreadable(IndexerError):
    """A file of an index cannot be read, for example because of missing permissions, but may be intact."""


class IndexUnwritable(IndexerError):
    """The index folder cannot be written, is not an index, or is on a full disk."""


class BuildLocked(IndexerError):
    """Another build is writing to the index, and has locked it."""


class ClusterError(IndexerError):
    """The Ray cluster cannot be reached, has lost its nodes, or would build a different index."""


class ArchiveError(IndexerError):
    """An archive cannot be written, or was not written by `pilotlight export`."""


class StoreError(IndexerError):
    """An index store other than a folder, such as Milvus, failed."""


class StoreAddressError(StoreError):
    """An address does not name a store, or the optional package for the store is not installed."""


class StoreUnreachable(StoreError):
    """A store does not respond in time."""


class StoreRefused(StoreError):
    """A store refuses the credentials or a request."""


def counted(number: int, noun: str) -> str:
    """Format a number with a noun in singular or plural: `1 page`, `1,000 pages`, `2 entries`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"


def plain(number: float) -> str:
    """Format a number without an exponent: `100,000,000`, `0.01`."""
    return f"{number:,.16g}"
