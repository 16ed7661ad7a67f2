"""The two collections of a generation in Milvus: passages, and records with the parts of the manifest.

Everything that a hit shows is stored with its passage, so that one call fetches it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from indexer.filter import AnyOf, Condition, Dated, HasTerm, LacksTerm, terms_of
from indexer.generation.documents import DOCUMENT_FIELDS, document_id, flat_metadata
from indexer.generation.lexical.lexical_query import Clause, LexicalQuery, Readings
from indexer.generation.lexical.lexical_writer import terms_of_chunk
from indexer.generation.manifest import Manifest
from indexer.generation.previous import ScannedDocument

CHUNK_FIELDS = ["row", "id", "url", "section", "text", "position", "about"]
MIN_HNSW_EF = 256
_MIN_HNSW_PASSAGES = 2_000
_HNSW_M, _HNSW_EF_CONSTRUCTION = 32, 128
_BM25_K1, _BM25_B = 1.2, 0.75  # the same as for the index folder
_MAX_TEXT_BYTES = 65_535
_MAX_RECORD_CHARS = 60_000
_MAX_TERMS = 4_096
_PLAIN = re.compile(r"(?!0x)[a-z0-9]+")
_EVERY_ROW, _NO_ROW = "row >= 0", "row < 0"


def passages_schema(dimension: int) -> Any:
    """Return the schema of the collection of passages; `row` is the position of a passage in the generation."""
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
    """Return the schema of the collection of records."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=_MAX_TEXT_BYTES)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # every collection needs a vector
    return schema


def passages_indexes(count: int) -> Any:
    """Return the indexes of the collection of passages. Milvus Lite requires nested `params`."""
    links = {"params": {"M": _HNSW_M, "efConstruction": _HNSW_EF_CONSTRUCTION}}
    weights = {"params": {"bm25_k1": _BM25_K1, "bm25_b": _BM25_B}}
    vector = {"index_type": "FLAT"} if count < _MIN_HNSW_PASSAGES else {"index_type": "HNSW", "params": links}
    return indexes(
        vector={"metric_type": "IP", **vector},
        sparse={"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25", "params": weights},
    )


def indexes(**options: dict[str, Any]) -> Any:
    """Return the parameters of indexes, by the names of their fields."""
    from pymilvus import MilvusClient

    params = MilvusClient.prepare_index_params()
    for field, values in options.items():
        params.add_index(field, **values)
    return params


def manifest_records(manifest: Manifest) -> list[dict[str, Any]]:
    """Return a manifest as records."""
    text = json.dumps(manifest.to_bytes().decode())
    starts = range(0, len(text), _MAX_RECORD_CHARS)
    return [{"part": start, "body": text[start : start + _MAX_RECORD_CHARS], "unused": [0.0, 0.0]} for start in starts]


def passages(documents: Iterable[ScannedDocument]) -> Iterator[dict[str, Any]]:
    """Yield the passages of documents as Milvus stores them."""
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
                "signature": signature - (1 << 64) if signature >> 63 else signature,  # Milvus' numbers are signed
                "words": words_of(chunk.title, chunk.section, chunk.text, document.language),
                "vector": vector.tolist(),
            }
            row += 1


def words_of(title: str, section: str, text: str, language: str | None = None) -> str:
    """Return the search terms of a chunk, separated by spaces and cut at Milvus' limit."""
    words = " ".join(map(_token, terms_of_chunk(title, section, text, language).split()))
    return words if len(words) <= _MAX_TEXT_BYTES else words[: _MAX_TEXT_BYTES + 1].rpartition(" ")[0]


def _token(term: str) -> str:
    return term if _PLAIN.fullmatch(term) else f"0x{term.encode('utf-8', 'replace').hex()}"


def _number_of(term: str) -> int:
    """Hash a term of a filter to 63 bits, so that no text of a user gets into an expression."""
    return int.from_bytes(hashlib.sha256(term.encode("utf-8", "replace")).digest()[:8], "big") >> 1


def expression(conditions: Sequence[Condition]) -> str:
    """Translate conditions into Milvus' expression for the passages of matching documents."""
    return " and ".join(map(_test, conditions)) or _EVERY_ROW


def _test(condition: Condition) -> str:
    match condition:
        case HasTerm(terms):
            return f"array_contains_any(terms, [{', '.join(str(_number_of(term)) for term in terms)}])"
        case LacksTerm(term):
            return f"not ({_test(HasTerm((term,)))})"
        case Dated(first, last):  # the filter has validated both days
            return f'date >= "{first or "0000-00-00"}" and date <= "{last or "9999-12-31"}"'
        case AnyOf(alternatives):
            return f"({' or '.join(f'({expression(each)})' for each in alternatives) or _NO_ROW})"


def bm25_text(query: LexicalQuery) -> str:
    """Return the optional and required words of a query as the text for BM25."""
    required = (readings for clause in query.required for readings in clause.readings)
    return " ".join(dict.fromkeys(map(_token, chain(*query.words, *chain(*query.synonyms), *required))))


def constraints(query: LexicalQuery) -> list[str]:
    """Translate the required and excluded parts of a query into Milvus' expressions."""
    excluded = [f"not ({_either(clause.readings)})" for clause in query.excluded]
    return [_either(clause.readings) for clause in query.required] + excluded


def has_phrases(words: str, required: Sequence[Clause]) -> bool:
    """Return whether the text of `words_of` contains every required phrase in one of its readings."""
    return all(
        any(f" {' '.join(map(_token, reading))} " in f" {words} " for reading in clause.readings) for clause in required
    )


def _either(readings: Readings) -> str:
    """Return an expression for passages with all words of at least one reading."""
    tests = [" and ".join(f"text_match(words, '{_token(term)}')" for term in dict.fromkeys(one)) for one in readings]
    return tests[0] if len(tests) == 1 else f"({' or '.join(f'({test})' for test in tests)})"
