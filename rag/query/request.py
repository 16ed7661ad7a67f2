"""The one place that says what a search can be asked for.

REST's checks and schemas, query strings and the client's keywords are derived from the fields of `SearchRequest`.
Another option is another field there, and the place in `retriever` where it takes effect.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from msgspec import Meta, Struct, structs

from rag.decoding import SOMETHING, decode
from rag.errors import FieldError
from rag.query.filters import Filter
from rag.query.options import (
    CLOSE,
    DEFAULT_COLLECTION,
    EXPANSIONS,
    FURTHEST,
    MAX_K,
    MAX_QUERY_CHARS,
    PER_DOCUMENT,
    RERANKED,
)

if TYPE_CHECKING:
    FilterFields = Filter | Mapping[str, Any] | None
else:
    FilterFields = Any  # `Filter.parse` checks it, for all who filter

Mode = Literal["hybrid", "dense", "lexical"]
Expansion = Literal["none", "section"]
Query = Annotated[
    str, Meta(min_length=1, max_length=MAX_QUERY_CHARS, pattern=SOMETHING, description="what to search for")
]
Collection = Annotated[str, Meta(min_length=1, description="name of a collection")]
_FILTER = {"anyOf": [{"$ref": "#/components/schemas/FilterFields"}, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of a server that concern a search."""

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


class _Asked(Struct, frozen=True, forbid_unknown_fields=True):
    query: Query


class SearchRequest(_Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One search, as it is asked for; an option that is None is as the server is set."""

    k: Annotated[int, Meta(ge=1, le=MAX_K, description="most hits to return")] = 10
    # the order of hits stays the same as long as k does
    offset: Annotated[int, Meta(ge=0, le=FURTHEST, description="hits to skip: `next` of the previous answer")] = 0
    mode: Annotated[Mode, Meta(description="by meaning and words, or one alone")] = "hybrid"
    collection: Collection = DEFAULT_COLLECTION
    per_document: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_K)] | None, Meta(description="most hits from one document; 0 = no limit")
    ] = None
    # maximal marginal relevance: 1 looks at variety alone
    diversity: Annotated[float, Meta(ge=0, le=1, description="how strongly to prefer hits that differ")] = 0
    expand: Annotated[Expansion | None, Meta(description="`section` adds the text of each hit's section")] = None
    facets: Annotated[bool, Meta(description="whether to count the documents found by source, language and so on")] = (
        False
    )
    sentences: Annotated[
        bool, Meta(description="whether to find the nearest sentence in hits that share no word with the query")
    ] = False
    rerank: Annotated[
        bool, Meta(description="whether a cross-encoder reads the best candidates; takes tens of milliseconds")
    ] = False
    explain: Annotated[bool, Meta(description="whether each hit says why it is where it is")] = False
    filter: Annotated[FilterFields, Meta(description="which documents may be found", extra_json_schema=_FILTER)] = None

    @property
    def only(self) -> Filter | None:
        """The filter, read; None where any document may be found. Raises FilterError."""
        return (Filter.parse(self.filter) if isinstance(self.filter, Mapping) else self.filter) or None

    @property
    def meaning(self) -> str:
        """The query without its syntax: what is embedded."""
        from indexer.generation.lexical.query_words import parse_query  # brings Tantivy, which a client can do without

        return parse_query(self.query).meaning

    def check(self) -> None:
        """Raise FieldError for a field that REST would refuse too."""
        decode(structs.asdict(self), SearchRequest, "a search")
        try:
            self.query.encode()
        except UnicodeEncodeError:
            raise FieldError("query", "query contains half of a surrogate pair, which is not a character.") from None

    def given(self) -> dict[str, Any]:
        """Return the options by name, but for those that are as the server is set."""
        values = structs.asdict(self)
        del values["query"]
        return {name: value for name, value in values.items() if value is not None}
