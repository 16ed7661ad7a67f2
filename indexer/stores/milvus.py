"""Call a Milvus server with timeouts, and define the collections that store an index generation.

The path in the address of a store is a Milvus alias, which names the live generation. A generation has two collections:
one contains the passages, the other the manifest. Each passage has all data of a search hit, so a search is one call.
"""

import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from indexer.errors import IndexerError, IndexMissing, StoreAddressError, StoreRefused, StoreUnreachable
from indexer.filter import AnyOf, Condition, Dated, HasTerm, LacksTerm, terms_of
from indexer.generation.documents import DOCUMENT_FIELDS, document_id, flat_metadata
from indexer.generation.lexical.lexical_query import Clause, LexicalQuery, Readings
from indexer.generation.lexical.lexical_writer import terms_of_chunk
from indexer.generation.manifest import Manifest, is_generation_id
from indexer.generation.previous import ScannedDocument

QUERY_TIMEOUT_S = 10.0
_CONNECT_TIMEOUT_S = 3.0
_LOAD_TIMEOUT_S = 600.0
_PORT = 19530
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FORMS = "use milvus://HOST:19530/NAME or milvuss://HOST:PORT/NAME"
# error codes of Milvus
_MISSING = (100, 700, 1600)  # collection, index, alias
_NOT_LOADED = 101
_UNAUTHORISED = (1400, 1401)
_BUSY = (2, 4, 8, 9)  # unavailable, too many requests, rate limit, quota
# By default, gRPC waits up to two minutes before it reconnects.
_CHANNEL = {"grpc.initial_reconnect_backoff_ms": 200, "grpc.max_reconnect_backoff_ms": 1000}
_CHANNEL |= {"grpc.enable_http_proxy": 0}


@dataclass(frozen=True, slots=True)
class MilvusAddress:
    """The address of a store. `shown` is the address as the user wrote it. The other fields are for pymilvus."""

    uri: str
    name: str
    database: str
    shown: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `milvus://HOST:PORT/NAME?database=NAME`, or `milvuss://…` for TLS. Raises StoreAddressError."""
        try:
            url = urlsplit(text)
            port = url.port or _PORT
        except ValueError as error:
            raise StoreAddressError(f"this is not the address of a store ({error}); {_FORMS}") from error
        if url.username is not None or url.password is not None:
            raise StoreAddressError(
                f"the address of the store at {url.hostname} contains credentials, which would appear in logs: "
                "remove them, and set PILOTLIGHT_MILVUS_TOKEN to USER:PASSWORD or to a token"
            )
        options = parse_qs(url.query)
        database = options.pop("database", [""])[-1]
        folder, _, name = url.path.rpartition("/")
        is_milvus = url.scheme in ("milvus", "milvuss") and bool(url.hostname) and not folder
        if not is_milvus or url.fragment or options or not _NAME.fullmatch(name):
            raise StoreAddressError(
                f"{text} is not the address of a store: {_FORMS}; NAME has letters, digits and _, but no digit first"
            )
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        return cls(f"{'https' if url.scheme == 'milvuss' else 'http'}://{host}:{port}", name, database, text)

    def __str__(self) -> str:
        return self.shown

    def collection(self, generation_id: str) -> str:
        """Return the name of the collection with the passages of an index generation."""
        return f"{self.name}_{generation_id.replace('-', '_')}"

    def generation_of(self, collection: str) -> str | None:
        """Return the id of the index generation in the name of a collection, or None if the name has another form."""
        day, mark, random = collection.removeprefix(f"{self.name}_").partition("_")
        id = f"{day}-{random}"
        return id if mark and is_generation_id(id) and self.collection(id) == collection else None


def records_of(collection: str) -> str:
    """Return the name of the collection with a manifest. `collection` contains the passages of the same generation."""
    return f"{collection}_records"


class _NotLoaded(StoreUnreachable):
    """Milvus has not loaded a collection into memory."""


class MilvusConnection:
    """A connection to Milvus, opened at the first call. Threads may share it, but forked processes may not."""

    def __init__(self, address: MilvusAddress, token: str, seconds_left: Callable[[], float]) -> None:
        self.address = address
        self._token = token
        self._seconds_left = seconds_left
        self._lock = threading.Lock()
        self._client: Any = None

    def call(self, method: str, *args: Any, timeout: float | None = QUERY_TIMEOUT_S, **kwargs: Any) -> Any:
        """Call a method of `pymilvus.MilvusClient`. The timeout is in seconds, or None to wait without a limit.

        Raises:
            StoreAddressError: the extra `milvus` is not installed.
            StoreUnreachable: the server does not answer in time.
            StoreRefused: the credentials are wrong, or the server refuses the call.
            IndexMissing: there is no such collection or alias.
        """
        try:
            from grpc import FutureTimeoutError, RpcError
            from pymilvus.exceptions import MilvusException
        except ImportError as error:
            raise StoreAddressError(
                f"{self.address} needs the client of Milvus, which is not installed: pip install 'pilotlight[milvus]'"
            ) from error
        step = "connect"
        try:
            with self._lock:
                self._client = client = self._client or self._connect()
            step = method
            return getattr(client, method)(*args, timeout=self._limited(timeout), **kwargs)
        except (MilvusException, RpcError, FutureTimeoutError) as error:
            raise self._translated(error, step) from error

    def _limited(self, timeout: float | None) -> float | None:
        return None if timeout is None else max(0.001, min(timeout, self._seconds_left()))

    def read(self, method: str, collection: str, **options: Any) -> Any:
        """Call `query` or `search` of a collection. If Milvus has not loaded the collection into memory, load it."""
        try:
            return self.call(method, collection, **options)
        except _NotLoaded:
            self.call("load_collection", collection, timeout=_LOAD_TIMEOUT_S)
            return self.call(method, collection, **options)

    def rows(self, collection: str, test: str, fields: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """Return the rows of a collection that match the expression `test`, unordered. Raises the errors of `call`."""
        return list(self.read("query", collection, filter=test, output_fields=list(fields), **options))

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connect(self) -> Any:
        from pymilvus import MilvusClient

        for name in ("pymilvus", "grpc._server"):  # they log tracebacks of the errors that they raise
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        client = MilvusClient(
            self.address.uri,
            token=self._token,
            db_name=self.address.database,
            timeout=self._limited(_CONNECT_TIMEOUT_S),
            dedicated=True,
            grpc_options=_CHANNEL,
        )

        def give_up(error: Exception) -> bool:
            raise error

        # By default, the client retries until the timeout, and blocks all other threads while it reconnects.
        client._handler._on_rpc_error = give_up
        return client

    def _translated(self, error: Any, method: str) -> IndexerError:
        from grpc import RpcError, StatusCode

        code = error.code() if isinstance(error, RpcError) else getattr(error, "code", None)
        if isinstance(error.__cause__, RpcError):  # connection errors have the code in their cause
            code = error.__cause__.code()
        details = error.details() if isinstance(error, RpcError) else getattr(error, "message", "")
        message = " ".join(str(details or type(error).__name__).split())[:300]
        if code in (StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED, *_UNAUTHORISED):
            return StoreRefused(
                f"{self.address} refuses the credentials ({message}): "
                "set PILOTLIGHT_MILVUS_TOKEN to USER:PASSWORD or to a token with access"
            )
        if code in _MISSING:
            return IndexMissing(f"{self.address}: {message}")
        if code == _NOT_LOADED:
            return _NotLoaded(f"{self.address}: {message}; try again in a moment")
        if method == "connect" or code in _BUSY or not isinstance(code, int):
            return StoreUnreachable(
                f"{self.address} does not answer in time ({message}): check the address, and that Milvus runs there"
            )
        return StoreRefused(f"{self.address} refuses to {method.replace('_', ' ')} ({message})")


CHUNK_FIELDS = ["row", "id", "url", "section", "text", "position", "about"]
MIN_HNSW_EF = 256
_MIN_HNSW_PASSAGES = 2_000
_HNSW_M, _HNSW_EF_CONSTRUCTION = 32, 128
_BM25_K1, _BM25_B = 1.2, 0.75  # the values that Tantivy uses
_MAX_TEXT_BYTES = 65_535
_MAX_RECORD_CHARS = 60_000
_MAX_TERMS = 4_096
_PLAIN = re.compile(r"(?!0x)[a-z0-9]+")
_EVERY_ROW, _NO_ROW = "row >= 0", "row < 0"


def passages_schema(dimension: int) -> Any:
    """Return the schema of the collection of passages. `row` is the position of a passage in the index."""
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("row", DataType.INT64, is_primary=True)
    for name in ("document", "position", "signature"):
        schema.add_field(name, DataType.INT64)
    for name in ("id", "document_id", "date"):
        schema.add_field(name, DataType.VARCHAR, max_length=64)
    for name in ("url", "section", "text"):
        schema.add_field(name, DataType.VARCHAR, max_length=_MAX_TEXT_BYTES)
    schema.add_field("about", DataType.JSON)
    schema.add_field("terms", DataType.ARRAY, element_type=DataType.INT64, max_capacity=_MAX_TERMS)
    analyzed = {"enable_analyzer": True, "enable_match": True, "analyzer_params": {"tokenizer": "standard"}}
    schema.add_field("words", DataType.VARCHAR, max_length=_MAX_TEXT_BYTES, **analyzed)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    fields = {"input_field_names": ["words"], "output_field_names": ["sparse"]}
    schema.add_function(Function(name="bm25", function_type=FunctionType.BM25, **fields))
    return schema


def records_schema() -> Any:
    """Return the schema of the collection that contains a manifest."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=_MAX_TEXT_BYTES)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # every collection needs a vector
    return schema


def passages_indexes(count: int) -> Any:
    """Return the definitions of Milvus indexes for `count` passages. Milvus Lite requires the nested `params`."""
    links = {"params": {"M": _HNSW_M, "efConstruction": _HNSW_EF_CONSTRUCTION}}
    weights = {"params": {"bm25_k1": _BM25_K1, "bm25_b": _BM25_B}}
    vector = {"index_type": "FLAT"} if count < _MIN_HNSW_PASSAGES else {"index_type": "HNSW", "params": links}
    return indexes(
        vector={"metric_type": "IP", **vector},
        sparse={"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25", "params": weights},
    )


def indexes(**options: dict[str, Any]) -> Any:
    """Return the index definitions of a collection as a pymilvus object. `options` maps fields to index parameters."""
    from pymilvus import MilvusClient

    params = MilvusClient.prepare_index_params()
    for field, values in options.items():
        params.add_index(field, **values)
    return params


def manifest_records(manifest: Manifest) -> list[dict[str, Any]]:
    """Split a manifest into rows of the collection that contains it."""
    text = json.dumps(manifest.to_bytes().decode())
    starts = range(0, len(text), _MAX_RECORD_CHARS)
    return [{"part": start, "body": text[start : start + _MAX_RECORD_CHARS], "unused": [0.0, 0.0]} for start in starts]


def passage_rows(documents: Iterable[ScannedDocument]) -> Iterator[dict[str, Any]]:
    """Yield the passages of documents as rows of the collection of passages."""
    row = 0
    for number, (document, chunks, signatures, vectors) in enumerate(documents):
        about = {name: getattr(document, name) for name in DOCUMENT_FIELDS} | {"metadata": flat_metadata(document)}
        shared = {
            "document": number,
            "document_id": document_id(document.url),
            "date": document.date or "",
            "terms": [_number_of(term) for term in terms_of(document)],
        }
        for chunk, signature, vector in zip(chunks, signatures, vectors, strict=True):
            yield {
                **shared,
                **{name: getattr(chunk, name) for name in ("id", "url", "section", "text", "position")},
                "about": about | {"blocks": chunk.blocks},
                "row": row,
                "signature": signature - (1 << 64) if signature >> 63 else signature,  # Milvus has no unsigned integers
                "words": words_of(chunk.title, chunk.section, chunk.text, document.language),
                "vector": vector.tolist(),
            }
            row += 1


def words_of(title: str, section: str, text: str, language: str | None = None) -> str:
    """Return the search terms of a chunk, separated by spaces, and truncated to Milvus' maximum length of a text."""
    words = " ".join(map(_token, terms_of_chunk(title, section, text, language).split()))
    return words if len(words) <= _MAX_TEXT_BYTES else words[: _MAX_TEXT_BYTES + 1].rpartition(" ")[0]


def _token(term: str) -> str:
    return term if _PLAIN.fullmatch(term) else f"0x{term.encode('utf-8', 'replace').hex()}"


def _number_of(term: str) -> int:
    """Hash a term of a filter to 63 bits, so that Milvus expressions contain no text from users."""
    return int.from_bytes(hashlib.sha256(term.encode("utf-8", "replace")).digest()[:8], "big") >> 1


def expression(conditions: Sequence[Condition]) -> str:
    """Translate the conditions of a filter into a Milvus expression for passages."""
    return " and ".join(map(_test, conditions)) or _EVERY_ROW


def _test(condition: Condition) -> str:
    match condition:
        case HasTerm(terms):
            return f"array_contains_any(terms, [{', '.join(str(_number_of(term)) for term in terms)}])"
        case LacksTerm(term):
            return f"not ({_test(HasTerm((term,)))})"
        case Dated(first, last):  # `Filter.parse` has validated both days
            return f'date >= "{first or "0000-00-00"}" and date <= "{last or "9999-12-31"}"'
        case AnyOf(alternatives):
            return f"({' or '.join(f'({expression(each)})' for each in alternatives) or _NO_ROW})"


def bm25_text(query: LexicalQuery) -> str:
    """Return the text to search with BM25, which contains the optional and required words of a query."""
    required = (readings for clause in query.required for readings in clause.readings)
    return " ".join(dict.fromkeys(map(_token, chain(*query.words, *chain(*query.synonyms), *required))))


def constraints(query: LexicalQuery) -> list[str]:
    """Translate the required and excluded words and phrases of a query into Milvus expressions."""
    excluded = [f"not ({_either(clause.readings)})" for clause in query.excluded]
    return [_either(clause.readings) for clause in query.required] + excluded


def has_phrases(words: str, required: Sequence[Clause]) -> bool:
    """Return whether search terms from `words_of` contain each required phrase, stemmed for at least one language."""
    return all(
        any(f" {' '.join(map(_token, reading))} " in f" {words} " for reading in clause.readings) for clause in required
    )


def _either(readings: Readings) -> str:
    """Return an expression for passages that contain all words of a phrase, stemmed for at least one language."""
    tests = [" and ".join(f"text_match(words, '{_token(term)}')" for term in dict.fromkeys(one)) for one in readings]
    return tests[0] if len(tests) == 1 else f"({' or '.join(f'({test})' for test in tests)})"
