"""The one place that says what a search can be asked for.

REST's schemas and query strings, the client's keywords, the tool of MCP and the reference are derived from the fields
of `SearchRequest`. Another option is another field there, and the place in `retriever` where it takes effect.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self, get_args, get_type_hints

from indexer.generation.lexical.query_words import parse_query
from rag.errors import QueryError
from rag.query.filters import Filter
from rag.query.options import (
    CLOSE,
    DEFAULT_COLLECTION,
    EXPANSIONS,
    FURTHEST,
    MAX_K,
    MAX_QUERY_CHARS,
    MODES,
    PER_DOCUMENT,
    RERANKED,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of a server that concern a search: bounds of a request, and its defaults."""

    max_k: int = MAX_K
    max_query_chars: int = MAX_QUERY_CHARS
    per_document: int = 0
    expand: str = EXPANSIONS[0]
    boost: str = ""  # rules; see `rag.query.scoring.boosts`
    synonyms: str = ""  # a file; see `rag.query.synonyms_file`
    close: float = CLOSE  # cosine from which a hit is close to the query; see `closeness`
    rerank_depth: int = RERANKED  # candidates that a cross-encoder reads

    @classmethod
    def of(cls, settings: object) -> Self:
        """Take them from settings, which have them by the same names."""
        known = (each.name for each in dataclasses.fields(cls) if hasattr(settings, each.name))
        return cls(per_document=PER_DOCUMENT, **{name: getattr(settings, name) for name in known})


USUAL = Limits()


@dataclass(frozen=True, slots=True)
class Option:
    """The facts of an option beside its type."""

    meaning: str
    low: int = 0
    high: int | None = None  # of a number; None: `max_k` of the server
    zero: str = ""  # what 0 stands for, in place of a bound; only REST bounds such a number, so that it says something
    choices: tuple[str, ...] = ()
    tool: str = ""  # its meaning for a model that calls a tool; empty where tools do not offer it
    kind: type = str  # these two follow from the field
    default: Any = None  # None: as the server is set

    def allows(self, value: object, max_k: int) -> bool:
        """Whether a value may be searched with; texts that are no choice, and yes or no, are left alone."""
        if value is None and self.default is None:
            return True
        if self.choices:
            return value in self.choices
        if not isinstance(value, int if self.kind is int else (int, float)) or isinstance(value, bool):
            return False
        return self.low <= value and (bool(self.zero) or value <= (max_k if self.high is None else self.high))

    def wanted(self, max_k: int) -> str:
        """Say which values are allowed."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        kind = "a whole number" if self.kind is int else "a number"
        return f"{kind}, 0 for {self.zero}" if self.zero else f"{kind} from {self.low} to {self.high or max_k}"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search, as it is asked for; what is None is as the server is set."""

    query: Annotated[str, Option("what to search for", tool="a whole question, or words")]
    _: KW_ONLY
    k: Annotated[int, Option("most hits to return", low=1, tool="passages wanted")] = 10
    # the order of hits stays the same as long as k does
    offset: Annotated[int, Option("hits to skip: `next` of the previous answer", high=FURTHEST)] = 0
    mode: Annotated[
        str,
        Option(
            "by meaning and words, or one alone",
            choices=MODES,
            tool="by meaning and words, meaning alone, words alone",
        ),
    ] = MODES[0]
    collection: Annotated[str, Option("name of a collection", tool="which collection")] = DEFAULT_COLLECTION
    per_document: Annotated[
        int | None,
        Option(
            "most hits from one document; 0 = no limit",
            zero="any number",
            tool="most passages from one document (default: 2); 0 = no limit",
        ),
    ] = None
    # maximal marginal relevance: 1 looks at variety alone
    diversity: Annotated[float, Option("how strongly to prefer hits that differ from each other", high=1)] = 0
    expand: Annotated[str | None, Option("`section` adds the text of each hit's section", choices=EXPANSIONS)] = None
    facets: Annotated[bool, Option("whether to count the documents found by source, language, type and folder")] = False
    sentences: Annotated[
        bool, Option("whether to find the nearest sentence in hits that share no word with the query")
    ] = False
    rerank: Annotated[
        bool,
        Option(
            "whether a cross-encoder reads the best candidates anew; takes tens of milliseconds",
            tool="whether a second, slower model ranks the best passages anew; only if the server has one",
        ),
    ] = False
    explain: Annotated[
        bool,
        Option(
            "whether each hit says why it is where it is",
            tool="whether each passage says why it was found",
        ),
    ] = False
    filter: Annotated[
        Filter | Mapping[str, Any] | None,
        Option(
            "which documents may be found",
            tool='only documents like this: {"path": "/docs", "language": "en"}; also date, metadata',
        ),
    ] = None

    @property
    def only(self) -> Filter | None:
        """The filter, read; None where any document may be found. Raises FilterError."""
        return (Filter.parse(self.filter) if isinstance(self.filter, Mapping) else self.filter) or None

    @property
    def meaning(self) -> str:
        """The query without its syntax: what is embedded."""
        return parse_query(self.query).meaning

    def check(self, limits: Limits) -> None:
        """Raise QueryError unless a server with these limits can answer."""
        _check_query(self.query, limits.max_query_chars)
        for name, option in _CHECKED:
            value = getattr(self, name)
            if not option.allows(value, limits.max_k):
                raise QueryError(f"{name} must be {option.wanted(limits.max_k)}, not {value!r}")

    def given(self) -> dict[str, Any]:
        """Return the options by name, but for those that are as the server is set."""
        values = {name: getattr(self, name) for name in FIELDS if name != "query"}
        return {name: value for name, value in values.items() if value is not None}


def _check_query(query: object, most: int) -> None:
    if not isinstance(query, str):
        raise QueryError(f"query must be text, not {type(query).__name__}")
    if not query.strip():
        raise QueryError("query is empty: enter at least one word")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise QueryError("query is not valid Unicode: it contains half of a surrogate pair") from None
    if len(query) > most:
        raise QueryError(f"query has {len(query)} characters: at most {most} are allowed")


def _fields() -> dict[str, Option]:
    hints = get_type_hints(SearchRequest, include_extras=True)
    found = {}
    for field in dataclasses.fields(SearchRequest):
        kind, option = get_args(hints[field.name])
        default = None if field.default is dataclasses.MISSING else field.default
        found[field.name] = dataclasses.replace(option, kind=next(iter(get_args(kind)), kind), default=default)
    return found


FIELDS = _fields()  # every field of a request by name, in order
OPTIONS = {name: option for name, option in FIELDS.items() if name not in ("query", "filter")}  # those of one value
_CHECKED = [(name, option) for name, option in OPTIONS.items() if option.choices or option.kind in (int, float)]
