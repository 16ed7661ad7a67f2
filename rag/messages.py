"""The bodies of REST requests and responses, as structs that `web` and `rag.client` encode and decode.

`/openapi.json` has their schemas. `rag.query.request` and `rag.query.results` define searches and their results.
"""

import json
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, field

from indexer.filter import MAX_VALUE_CHARS, MAX_VALUES
from indexer.read.access_list import MAX_NAME_LENGTH as LONGEST_READER
from indexer.read.access_list import MAX_NAMES as MOST_READERS
from indexer.read.extraction import MAX_NAME_LENGTH, MAX_VALUE_LENGTH
from indexer.read.formats import CONTENT_TYPES
from indexer.records import TextBlock
from rag.decoding import NOT_SPACE, VISIBLE
from rag.insights.store import FeedbackKind
from rag.query.request import (
    DEFAULT_COLLECTION,
    DEFAULT_SUGGESTIONS,
    FILTER_SCHEMA,
    MAX_ANSWER_CHARS,
    MAX_EXCHANGES,
    MAX_QUERY_CHARS,
    MAX_SUGGESTIONS,
    Collection,
    Collections,
    Query,
    SearchRequest,
)
from rag.query.results import Answer, Span, Suggestion

MAX_BATCH_QUERIES = 32  # embedded in one batch
MAX_EMBEDDED_TEXTS = 2048  # same as OpenAI's API
MAX_RANKED_TEXTS = 1000  # same as Cohere's API
MAX_PROVED_CHARS = 1_000_000
MAX_TEXT_CHARS = 100_000
EVENT_STREAM = "text/event-stream"  # https://html.spec.whatwg.org/multipage/server-sent-events.html
_TYPES = "|".join(sorted(CONTENT_TYPES)).replace(".", r"\.").replace("+", r"\+")

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1, le=1_000_000)]
Milliseconds = Annotated[float, Meta(ge=0)]
Usage = Annotated[dict[str, Count], Meta(description="`prompt_tokens` and `total_tokens` of the texts")]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS)]
Day = Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", extra_json_schema={"format": "date"})]
_LANGUAGE = "^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$"
Language = Annotated[str, Meta(pattern=_LANGUAGE, max_length=MAX_VALUE_CHARS, description="such as `en`")]
Name = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$", description="collection; a push may create it")]
Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?(:[1-5]?[0-9]{1,4})?"
        r"([/?][^\u0000-\u0020#\u007f-\u00a0]*)?$",
        description="http or https address without a fragment; it is not fetched",
    ),
]
# The schema shows these patterns, but only `Filter.parse` checks them. msgspec 0.20 to 0.22 corrupts memory if a union
# has both a list and a `str` with a checked pattern. tests/rag/test_client.py fails if a struct has such a union.
_Value = Annotated[str, Meta(min_length=1, max_length=MAX_VALUE_CHARS, extra_json_schema={"pattern": NOT_SPACE})]
_Values = _Value | Annotated[list[_Value], Meta(min_length=1, max_length=MAX_VALUES)]
_MetadataFilter = Annotated[dict[_Value, _Values | None], Meta(max_length=MAX_VALUES)]
_Address = Annotated[
    str, Meta(max_length=MAX_VALUE_CHARS, extra_json_schema={"pattern": "^[A-Za-z][A-Za-z0-9+.-]*://"})
]
_Addresses = _Address | Annotated[list[_Address], Meta(min_length=1, max_length=MAX_VALUES)]
_Tag = Annotated[str, Meta(max_length=MAX_VALUE_CHARS, extra_json_schema={"pattern": _LANGUAGE})]
_Tags = _Tag | Annotated[list[_Tag], Meta(min_length=1, max_length=MAX_VALUES)]


_ANSWERS = {"items": {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Answer", "Problem")]}}


class Request(Struct, forbid_unknown_fields=True):
    """The base class of requests. Unknown fields are refused, and null counts as absent."""


class Days(Request, rename={"first": "from", "last": "to"}):
    """A period of days. Without `from` it has no beginning, and without `to` it has no end."""

    first: Day | None = None
    last: Day | None = None


class FilterFields(Request):
    """A filter of documents. A document must match every field. If a field has several values, one match is enough."""

    source: Annotated[_Values | None, Meta(description="source of the documents, spelled as it was indexed")] = None
    url_prefix: Annotated[_Addresses | None, Meta(description="at this address or below it")] = None
    path: Annotated[_Values | None, Meta(description="at this path or below it, on any host")] = None
    language: Annotated[_Tags | None, Meta(description="language: `en` and `en-GB` both mean English")] = None
    content_type: Annotated[_Values | None, Meta(description="media type of the documents")] = None
    version: Annotated[_Values | None, Meta(description="version: `17`, `17.x`, or `latest` for the newest")] = None
    date: Annotated[Days | None, Meta(description="days within which the documents are dated")] = None
    metadata: Annotated[_MetadataFilter | None, Meta(description="values by name; one of each name must match")] = None


class SearchBatch(Request):
    """Several searches in one request."""

    queries: Annotated[list[SearchRequest], Meta(min_length=1, max_length=MAX_BATCH_QUERIES)]


class BatchAnswer(Struct):
    """The answer or the error of each search, in the order of the request."""

    answers: Annotated[list[dict[str, Any]], Meta(extra_json_schema=_ANSWERS)]
    took_ms: dict[str, Milliseconds]


class SuggestRequest(Request):
    """A request for queries that complete the text typed so far."""

    q: Query
    k: Annotated[int, Meta(ge=1, le=MAX_SUGGESTIONS, description="maximum number of suggestions")] = DEFAULT_SUGGESTIONS
    collection: Collection = DEFAULT_COLLECTION
    collections: Annotated[str | None, Meta(description="several collections: names with commas, or `*`")] = None


class Suggestions(Struct):
    """Suggested queries, the most likely first."""

    suggestions: list[Suggestion]


class Exchange(Request):
    """An earlier question in a conversation, and its answer."""

    question: Query
    answer: Annotated[str, Meta(max_length=MAX_ANSWER_CHARS)]


class AnswerRequest(SearchRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to answer from the hits of a search, with the earlier conversation."""

    # A short question is assumed to continue the conversation.
    history: Annotated[list[Exchange], Meta(max_length=MAX_EXCHANGES, description="the latest one last")] = field(
        default_factory=list
    )

    @property
    def search(self) -> SearchRequest:
        """The search request with the same question and options, without the conversation."""
        return SearchRequest(**{name: getattr(self, name) for name in SearchRequest.__struct_fields__})


class Event(NamedTuple):
    """A server-sent event. Events that Pilotlight creates have JSON in `data`."""

    name: str
    data: str

    def encode(self) -> bytes:
        """Return the bytes of the event. `data` must not contain line breaks."""
        return f"event: {self.name}\ndata: {self.data}\n\n".encode()


def event_of(name: str, value: Any) -> Event:
    """Return an event that has a JSON-ready value as `data`."""
    return Event(name, json.dumps(value, ensure_ascii=False))


class Citation(Struct, frozen=True):
    """A hit that an answer cites."""

    number: Annotated[int, Meta(ge=1, description="in the text, [1] is the first hit")]
    id: str
    url: str
    title: str
    section: str
    link: Annotated[str | None, Meta(description="`url` with a fragment that makes browsers highlight the text")]


_VERDICT = (
    "`found`: the cited passage has the quotation word for word, or all facts; `elsewhere`: another passage has them; "
    "`altered`: a passage has most words, but differs; `not there`: none has them; `unchecked`: nothing to compare"
)


class Proof(Struct, frozen=True):
    """The result of comparing one sentence with passages. Only words and facts are compared, not meanings."""

    start: Annotated[int, Meta(ge=0, description="index of the first character of the sentence in the text")]
    end: Count
    verdict: Annotated[Literal["found", "elsewhere", "altered", "not there", "unchecked"], Meta(description=_VERDICT)]
    reason: Annotated[str, Meta(description="reason for the verdict, in words")]
    differing: Annotated[list[Span], Meta(description="parts of the text, as [start, end), that occur in no passage")]
    is_quotation: Annotated[bool, Meta(description="whether the verdict is about a quotation")] = False
    number: Annotated[int | None, Meta(description="number of the hit that `reason` is about")] = None
    id: Annotated[str | None, Meta(description="id of its passage")] = None
    url: str | None = None
    title: str | None = None
    section: str | None = None
    span: Annotated[Span | None, Meta(description="the evidence: characters [start, end) of the passage")] = None
    source: Annotated[str | None, Meta(description="text of the passage in `span`")] = None
    link: Annotated[str | None, Meta(description="`url` with a fragment that makes browsers highlight it")] = None


class AnswerInWords(Answer, frozen=True, kw_only=True):
    """The results of a search, and the answer in words that was generated from its hits."""

    answer: str
    citations: list[Citation]
    proofs: Annotated[list[Proof], Meta(description="one for each sentence, in order")] = field(default_factory=list)
    finish_reason: Annotated[str, Meta(description="`stop`, `length` if it was cut off, or `nothing found`")]


class VerifyRequest(Request):
    """A text whose quotations and facts are compared with an index."""

    text: Annotated[str, Meta(min_length=1, max_length=MAX_PROVED_CHARS, pattern=VISIBLE)]
    collection: Collection = DEFAULT_COLLECTION
    collections: Collections | None = None
    filter: Annotated[Any, Meta(description="documents that may be evidence", extra_json_schema=FILTER_SCHEMA)] = None


class Verification(Struct):
    """The proof for each sentence of a text, and the number of sentences with each verdict."""

    proofs: list[Proof]
    counts: Annotated[dict[str, Count], Meta(description="sentences by verdict")]
    end: Annotated[int, Meta(ge=0, description="index of the end of the checked text, of at most 1,000 sentences")]


class Edit(Struct, frozen=True):
    """A sentence before and after a change."""

    old: Annotated[str | None, Meta(description="null if it was added")]
    new: Annotated[str | None, Meta(description="null if it was removed")]


class SectionChange(Struct, frozen=True):
    """A section that differs between two generations or versions."""

    kind: Literal["added", "removed", "rewritten", "moved", "renamed"]
    section: Annotated[str, Meta(description="headings below the title, joined with ` › `")]
    url: str
    edits: Annotated[tuple[Edit, ...], Meta(description="sentences that differ")]
    old_section: Annotated[str | None, Meta(description="`section` before it was moved or renamed")] = None
    old_url: str | None = None


class DocumentChange(Struct, frozen=True):
    """A document that differs between two generations or versions."""

    kind: Literal["added", "removed", "changed", "moved", "renamed"]
    url: str
    title: str
    sections: Annotated[list[SectionChange], Meta(description="empty if the answer would be too long")]
    old_url: str | None = None
    old_title: str | None = None

    @property
    def characters(self) -> int:
        """The number of characters in the edits."""
        return sum(len(edit.old or "") + len(edit.new or "") for each in self.sections for edit in each.edits)


class Snapshot(Struct, frozen=True):
    """An index generation, or the documents for one product version in it."""

    generation: str
    created_at: Annotated[str, Meta(description="ISO 8601, UTC")]
    version: Annotated[str | None, Meta(description="version of the manual, if two versions are compared")] = None


_Moment = Annotated[str, Meta(max_length=100)]
_MOMENTS = "a day, a number of days such as `30d`, a generation, or a version"


class ChangesRequest(Request):
    """A request to compare two index generations or two versions of the documents in a collection."""

    since: Annotated[_Moment | None, Meta(description=f"{_MOMENTS}; default: the previous generation")] = None
    until: Annotated[_Moment | None, Meta(description=f"{_MOMENTS}; default: live, or newest version")] = None
    collection: Collection = DEFAULT_COLLECTION
    limit: Annotated[int, Meta(ge=1, le=10_000, description="maximum number of documents")] = 1_000


class Changes(Struct, frozen=True):
    """The differences between two index generations or two versions of the documents in a collection."""

    collection: str
    since: Snapshot
    until: Snapshot
    counts: Annotated[dict[str, Count], Meta(description="changed sections by kind, and changed `documents`")]
    noise: Annotated[int, Meta(ge=0, description="sections that differ only by dates, counters or navigation")]
    documents: list[DocumentChange]
    available: Annotated[list[Snapshot], Meta(description="generations that can be compared, newest first")]


_HitId = Annotated[str, Meta(min_length=1, max_length=200)]
_FEEDBACK = (
    "`opened`: the hit was opened; `good`, `bad`: a judgement of it; `none`: withdraws the judgement; "
    "`seen`: the hits were shown (searches with a key for pages count only after this)"
)


class FeedbackRequest(Request):
    """Feedback on a search: a hit was opened or judged, or the hits were displayed."""

    search_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$", description="`search_id` of an answer")]
    feedback: Annotated[FeedbackKind, Meta(description=_FEEDBACK)]
    hit: Annotated[_HitId | None, Meta(description="`id` of the hit; not needed for `seen`")] = None


class EmbeddingRequest(Struct):
    """Texts to embed, in OpenAI's format. Other fields of that format are ignored, and long texts are truncated."""

    input: Text | Annotated[list[Text], Meta(min_length=1, max_length=MAX_EMBEDDED_TEXTS)]
    model: Annotated[str, Meta(max_length=1000, description="name of the model, as in /readyz")] = ""
    encoding_format: Annotated[Literal["float", "base64"], Meta(description="base64 of little-endian float32")] = (
        "float"
    )
    dimensions: Annotated[Positive | None, Meta(description="must be the dimension of the model")] = None
    role: Annotated[Literal["document", "query"], Meta(description="embedded differently by some models")] = "document"


class Embedding(Struct):
    """The vector of one text."""

    index: Count
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingList(Struct):
    """The vectors of texts, in order."""

    data: list[Embedding]
    model: str
    usage: Usage
    object: Literal["list"] = "list"


class Model(Struct):
    """A model of the server."""

    id: str
    created: int = 0
    owned_by: str = "pilotlight"
    object: Literal["model"] = "model"


class Models(Struct):
    """The models of the server: the embedder, and the reranker if there is one."""

    data: list[Model]
    object: Literal["list"] = "list"


_TEXT_FIELDS = {"required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_TextFields = Annotated[dict[str, Any], Meta(extra_json_schema=_TEXT_FIELDS)]


class RerankRequest(Struct):
    """Texts to rank by relevance to a query, in the format of Cohere and Jina. Other fields are ignored."""

    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS)]
    documents: Annotated[list[Text | _TextFields], Meta(min_length=1, max_length=MAX_RANKED_TEXTS)]
    model: Annotated[str, Meta(max_length=1000, description="must be the reranking model of the server")] = ""
    top_n: Annotated[Positive | None, Meta(description="maximum number of results; default: all")] = None
    rank_fields: Annotated[
        list[str] | None, Meta(description="which fields of each document to read, in this order")
    ] = None
    return_documents: Annotated[bool, Meta(description="whether to repeat each text in its result")] = False


class Ranked(Struct, omit_defaults=True):
    """The score of one text."""

    index: Annotated[int, Meta(ge=0, description="index in the request, from 0")]
    relevance_score: Annotated[float, Meta(ge=0, le=1)]
    document: Annotated[dict[str, str] | None, Meta(description="its `text`")] = None


class Reranking(Struct):
    """Texts in order of relevance, the best first."""

    id: str
    model: str
    results: list[Ranked]
    usage: Usage


class Passage(Struct, frozen=True):
    """One passage of a document."""

    id: str
    url: Annotated[str, Meta(description="address, with the anchor of the section")]
    section: Annotated[str, Meta(description="heading path joined with ` › `")]
    text: str
    blocks: Annotated[list[TextBlock], Meta(description="code and tables: characters [start, end) of `text`")] = []


class DocumentListing(Struct, frozen=True):
    """One document of an index, with its passages in reading order."""

    generation: str
    id: str
    url: str
    title: str
    source: str
    language: str | None
    date: Annotated[str | None, Meta(description="YYYY-MM-DD")]
    content_type: str
    metadata: dict[str, Any]
    fetched_at: Annotated[str, Meta(description="ISO 8601, UTC")]
    passages: list[Passage]


_Reader = Annotated[str, Meta(min_length=1, max_length=LONGEST_READER, pattern=VISIBLE)]
_Readers = Annotated[list[_Reader], Meta(max_length=MOST_READERS // 2)]
_MetaName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH, pattern=VISIBLE)]
_MetaValue = Annotated[str, Meta(min_length=1, max_length=MAX_VALUE_LENGTH, extra_json_schema={"pattern": VISIBLE})]
_MetaValues = _MetaValue | Annotated[list[_MetaValue], Meta(min_length=1, max_length=MAX_VALUES)]


class Access(Request):
    """The users and groups that may read a document. If both lists are empty, no one may read it."""

    users: _Readers | None = None
    groups: _Readers | None = None


_MediaType = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="media type; for bytes, also their charset if it is known, as in `text/html; charset=latin-1`",
        extra_json_schema={"pattern": f"^({_TYPES})(; ?charset=[A-Za-z0-9_.:-]+)?$"},
    ),
]


# The pattern is only shown in the schema, because checking it needs 36 times the memory of the text.
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class Push(Request):
    """A document to index, as text or as bytes in base64. Fields such as `title` override values in the document."""

    url: Url
    text: str | None = None
    base64: Annotated[bytes, Meta(extra_json_schema={"pattern": _BASE64})] | None = None
    content_type: _MediaType = "text/plain"
    title: Annotated[str, Meta(min_length=1, max_length=1000, pattern=VISIBLE)] | None = None
    language: Language | None = None
    date: Annotated[Day | None, Meta(description="day of the last change")] = None
    metadata: Annotated[
        dict[_MetaName, _MetaValues | None], Meta(max_length=MAX_VALUES, description="values by name, to filter by")
    ] = {}
    access: Access | None = None
    replace: Annotated[bool, Meta(description="whether to replace a document at this address; if false, 409")] = True
    collection: Name = DEFAULT_COLLECTION


class IndexChange(Struct):
    """The push or withdrawal of a document, and the state of this change. `id` numbers the changes of a collection."""

    id: Count
    collection: str
    url: str
    document: Annotated[str, Meta(description="id of the document, as in hits")]
    action: Literal["put", "delete"]
    at: Annotated[str, Meta(description="ISO 8601, UTC")]
    state: Literal["queued", "indexed", "skipped", "failed", "removed", "superseded"]
    reason: Annotated[str | None, Meta(description="why it was skipped or failed")]
    generation: Annotated[str | None, Meta(description="the generation that was built with it")]


class PushQueue(Struct):
    """The state of the documents that were pushed to a collection."""

    collection: str
    queued: Annotated[int, Meta(ge=0, description="changes that wait to be indexed")]
    oldest: Annotated[str | None, Meta(description="when the oldest of them arrived")]
    failed: Annotated[int, Meta(ge=0, description="documents that could not be read, among the recorded changes")]
    documents: Annotated[int, Meta(ge=0, description="documents that were pushed and not withdrawn")]
    bytes: Annotated[int, Meta(ge=0, description="total size of these documents")]
    error: Annotated[str | None, Meta(description="error of the last attempt to index waiting changes")]
    changes: Annotated[list[IndexChange], Meta(description="the latest changes, newest first")]


class ToolMessage(Struct):
    """A message of the Model Context Protocol (JSON-RPC 2.0)."""

    jsonrpc: Literal["2.0"]
    method: str
    id: Annotated[int | str | None, Meta(description="id of a request; a notification has none")] = None
    params: dict[str, Any] | None = None


class InCollection(Request):
    """A request about one collection."""

    collection: Collection = DEFAULT_COLLECTION


class InPushed(Request):
    """A request about the documents that were pushed to a collection."""

    collection: Name = DEFAULT_COLLECTION


class Withdrawal(InPushed, kw_only=True):
    """A pushed document to withdraw."""

    url: Url


class BuildRequest(Request):
    """A request to rebuild a collection from its sources."""

    full: Annotated[bool, Meta(description="whether to reprocess unchanged pages too")] = False
    collection: Name = DEFAULT_COLLECTION


class Job(Struct):
    """A build that the server runs or ran."""

    id: str
    created_at: str
    collection: str
    full: bool
    state: Literal["running", "cancelling", "done", "failed", "cancelled"]
    ended_at: str | None
    report: Annotated[dict[str, Any] | None, Meta(description="the output of `pilotlight index --json`")]
    error: str | None


class Jobs(Struct):
    """The running build and recent builds of the server, newest first."""

    jobs: list[Job]


class CollectionStatus(Struct, kw_only=True):
    """The state of a collection and of its live index."""

    name: str | None = None
    ready: bool
    reason: str | None
    generation: str | None = None
    created_at: str | None = None
    documents: Count | None = None
    chunks: Count | None = None


class Status(CollectionStatus, kw_only=True):
    """The model of a server, and the state of its collections."""

    missing: bool
    model: str
    collections: list[CollectionStatus] = []
    engine: str | None = None
    precision: str | None = None
    query_precision: str | None = None
    dimension: Count | None = None
    rerank_model: str | None = None


class Problem(Struct):
    """An error response in the format of RFC 9457."""

    title: Annotated[str, Meta(description="the reason phrase of the HTTP status")]
    status: int
    detail: Annotated[str, Meta(description="one sentence for people")]
    type: str = "about:blank"
    field: Annotated[str | None, Meta(description="the field at fault, such as `filter.date.from`")] = None
    message: Annotated[str | None, Meta(description="same as `detail`, under /v1")] = None
    error: Annotated[dict[str, str | None] | None, Meta(description="the error in OpenAI's form, under /v1")] = None
