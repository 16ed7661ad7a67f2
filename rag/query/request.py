"""Define the options of a search for the REST API, query strings and the Python client, and convert filters.

To add an option, add a field to `SearchRequest`, and use the field in `retriever`. Filters in query strings and on the
command line look like `language=en`, `from=2026-01-01` and `meta.team=core`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, structs

from indexer.errors import FilterError as FilterError
from indexer.filter import LISTS as LISTS
from indexer.filter import Filter as Filter
from indexer.generation.editions import resolve_versions
from indexer.generation.manifest import DEFAULT
from rag.decoding import VISIBLE

if TYPE_CHECKING:
    from indexer.generation.manifest import Manifest

    FilterFields = Filter | Mapping[str, Any] | None
else:
    FilterFields = Any  # values are checked by `Filter.parse`, not by msgspec

DEFAULT_COLLECTION = DEFAULT
CLOSE = 0.4
RERANK_WEIGHT = 0.5
RERANKED = 20  # number of candidates that a cross-encoder scores
MAX_OFFSET = 1_000
DEFAULT_SUGGESTIONS, MAX_SUGGESTIONS = 6, 20
MAX_EXCHANGES, MAX_ANSWER_CHARS = 20, 20_000
MAX_K = 100
MAX_QUERY_CHARS = 10_000
DEFAULT_PER_DOCUMENT = 2

Mode = Literal["hybrid", "dense", "lexical"]
MODES = get_args(Mode)
Query = Annotated[
    str, Meta(min_length=1, max_length=MAX_QUERY_CHARS, pattern=VISIBLE, description="what to search for")
]
Collection = Annotated[str, Meta(min_length=1, description="name of a collection")]
ALL = "*"  # every collection that the caller may see; no collection has this name
Collections = Annotated[
    str | Annotated[list[str], Meta(min_length=1, max_length=100)],
    Meta(description="collections to search as one, in place of `collection`: names, or `*` for all available ones"),
]
FILTER_SCHEMA = {"anyOf": [{"$ref": "#/components/schemas/FilterFields"}, {"type": "null"}]}

DAYS = ("from", "to")
METADATA = "meta."
KEYS = (*LISTS, *DAYS, f"{METADATA}NAME")


class _Queried(Struct, frozen=True, forbid_unknown_fields=True):
    query: Query


class SearchRequest(_Queried, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query and options of a search. If an option is None, the server chooses its value."""

    k: Annotated[int, Meta(ge=1, le=MAX_K, description="maximum number of hits")] = 10
    # The order of hits depends on k, so a request for the next hits needs the same k.
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="hits to skip: `next` of the previous answer")] = 0
    mode: Annotated[Mode, Meta(description="search by meaning and words, or by only one of them")] = "hybrid"
    collection: Collection = DEFAULT_COLLECTION
    collections: Collections | None = None
    per_document: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_K)] | None, Meta(description="limit of hits from one document; 0 = no limit")
    ] = None
    expand: Annotated[Literal["none", "section"] | None, Meta(description="`section` adds the section to hits")] = None
    facets: Annotated[bool, Meta(description="whether to count documents by source, language and so on")] = False
    rerank: Annotated[bool, Meta(description="whether a cross-encoder reranks the best candidates")] = False
    links: Annotated[bool, Meta(description="whether to add links that make browsers highlight the hits")] = False
    explain: Annotated[bool, Meta(description="whether to explain the score of each hit")] = False
    filter: Annotated[FilterFields, Meta(description="documents to search", extra_json_schema=FILTER_SCHEMA)] = None

    @property
    def parsed_filter(self) -> Filter | None:
        """The filter as a `Filter`, or None if it allows every document. Raises FilterError if it is invalid."""
        return (Filter.parse(self.filter) if isinstance(self.filter, Mapping) else self.filter) or None

    @property
    def meaning(self) -> str:
        """The text to embed: the query without excluded words and phrases."""
        # Imported here, because it loads Tantivy, which clients do not need.
        from indexer.generation.lexical.lexical_query import parse_query

        return parse_query(self.query).meaning

    def options(self) -> dict[str, Any]:
        """Return the options that are not None, by name."""
        return {name: value for name, value in structs.asdict(self).items() if value is not None and name != "query"}


def names_of(collections: str | Sequence[str]) -> list[str] | None:
    """Return the distinct names in a list or a comma-separated text, or None if `*` is among them."""
    names = map(str.strip, collections.split(",") if isinstance(collections, str) else collections)
    return None if ALL in (unique := list(dict.fromkeys(names))) else unique


def effective_filter(filter: Filter | None, manifest: "Manifest") -> Filter | None:
    """Adapt a filter to an index generation. Returns None if the filter allows all documents.

    Versions become addresses. If no document has an access list, conditions on readers are removed.
    """
    if filter is None:
        return None
    filter = resolve_versions(filter, manifest.versions)
    if manifest.is_restricted:
        return filter
    bare = filter.without_readers()
    return bare if bare.conditions() else None


def fields_of(parameters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Convert the parameters of a query string to fields for `Filter.parse`. Names are not checked here."""
    fields: dict[str, Any] = {}
    for name, values in parameters.items():
        if name in DAYS:
            fields.setdefault("date", {})[name] = values[-1]
        elif name.startswith(METADATA):
            fields.setdefault("metadata", {})[name.removeprefix(METADATA)] = list(values)
        else:
            fields[name] = list(values)
    return fields


def parameters_of(filter: Filter | None) -> list[tuple[str, str]]:
    """Convert a filter to names and values in a query string, such as `language` and `en`. Reverses `fields_of`."""
    if filter is None:
        return []
    pairs = [(name, value) for name in LISTS for value in getattr(filter, name)]
    pairs += [(name, day) for name, day in zip(DAYS, (filter.date_from, filter.date_to), strict=True) if day]
    return pairs + [(METADATA + name, value) for name, values in filter.metadata for value in values]


def key_of(field: str) -> str:
    """Return the name that a field of a filter has in query strings, such as `from` for `filter.date.from`."""
    name = field.removeprefix("filter.").removeprefix("date.")
    return name.replace("metadata.", METADATA, 1) if name.startswith("metadata.") else name
