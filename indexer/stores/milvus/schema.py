"""A generation in Milvus: a collection of passages, and one of records that make it complete.

All that a hit shows is stored with its passage, so that one call fetches it. Records are the manifest, in parts -1, -2,
…, and the shares of repetition, in parts from SHARES on.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.filter import AnyOf, Condition, Dated, HasTerm, LacksTerm, terms_of
from indexer.generation.documents import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    PASSAGE_FIELDS,
    SHOWN_FIELDS,
    StoredChunk,
    document_id,
    flat_metadata,
)
from indexer.generation.lexical.lexical_query import Clause, LexicalQuery
from indexer.generation.lexical.lexical_writer import terms_of_chunk
from indexer.generation.manifest import FileRecord, Manifest
from indexer.generation.previous import ScannedDocument

SHOWN = ["row", "id", "url", "section", "text", "position", "about"]
DIGESTED = ["id", "url", "section", "text", "vector"]
EXPLORED = 256  # nodes of HNSW that a search looks at, at least
SHARES = 1 << 40
_HNSW_FROM = 2_000  # passages; fewer are compared one by one
_LINKS, _BUILDING = 32, 128  # of a node in HNSW; nodes looked at when one is added
_K1, _B = 1.2, 0.75  # those of the embedded store
_TEXT = 65_535  # bytes, the most that Milvus takes
_PART = 60_000  # characters of a record
_MOST_TERMS = 4_096
_PLAIN = re.compile(r"(?!0x)[a-z0-9]+")
_ALL, _NONE = "row >= 0", "row < 0"  # expressions that are true of every passage, and of none


def passages_schema(dimension: int) -> Any:
    """Return the schema of the collection of passages; `row` is the position of a passage in the generation."""
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("row", DataType.INT64, is_primary=True)
    for name in ("document", "position", "tokens", "signature"):
        schema.add_field(name, DataType.INT64)
    for name in ("id", "document_id", "content_hash"):
        schema.add_field(name, DataType.VARCHAR, max_length=64)
    for name in ("url", "section", "text", "source"):
        schema.add_field(name, DataType.VARCHAR, max_length=_TEXT)
    for name in ("language", "content_type", "date"):  # empty where it is not known
        schema.add_field(name, DataType.VARCHAR, max_length=256)
    schema.add_field("about", DataType.JSON)
    schema.add_field("terms", DataType.ARRAY, element_type=DataType.INT64, max_capacity=_MOST_TERMS)
    analyzed = {"enable_analyzer": True, "enable_match": True, "analyzer_params": {"tokenizer": "standard"}}
    schema.add_field("words", DataType.VARCHAR, max_length=_TEXT, **analyzed)
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
    schema.add_field("body", DataType.VARCHAR, max_length=_TEXT)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # there is no collection without a vector
    return schema


def passages_indexes(count: int) -> Any:
    """Return the indexes over so many passages. Their parameters are nested once more, for Milvus Lite."""
    links = {"params": {"M": _LINKS, "efConstruction": _BUILDING}}
    weights = {"params": {"bm25_k1": _K1, "bm25_b": _B}}
    vector = {"index_type": "FLAT"} if count < _HNSW_FROM else {"index_type": "HNSW", "params": links}
    return indexes(
        vector={"metric_type": "IP", **vector},
        sparse={"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25", "params": weights},
    )


def indexes(**options: dict[str, Any]) -> Any:
    """Return indexes by the names of their fields."""
    from pymilvus import MilvusClient

    found = MilvusClient.prepare_index_params()
    for field, values in options.items():
        found.add_index(field, **values)
    return found


def share_records(shares: npt.NDArray[np.uint8]) -> list[dict[str, Any]]:
    """Return the shares of all passages as records."""
    return _records(b64encode(shares.tobytes()).decode(), range(SHARES, SHARES << 1))


def manifest_records(manifest: Manifest) -> list[dict[str, Any]]:
    """Return a manifest as records."""
    return _records(json.dumps(manifest.to_bytes().decode()), range(-1, -SHARES, -1))


def _records(text: str, parts: Iterable[int]) -> list[dict[str, Any]]:
    pieces = (text[start : start + _PART] for start in range(0, len(text), _PART))
    return [{"part": part, "body": body, "unused": [0.0, 0.0]} for body, part in zip(pieces, parts, strict=False)]


def passages(documents: Iterable[ScannedDocument]) -> Iterator[dict[str, Any]]:
    """Yield the passages of documents as Milvus stores them."""
    row = 0
    for number, (document, chunks, signatures, vectors, _) in enumerate(documents):
        about = {name: getattr(document, name) for name in DOCUMENT_FIELDS} | {"metadata": flat_metadata(document)}
        shared = {
            "document": number,
            "document_id": document_id(document.url),
            "about": about,
            "source": document.source,
            "language": document.language or "",
            "content_type": document.content_type,
            "date": document.date or "",
            "terms": [_number_of(term) for term in terms_of(document)],
        }
        for chunk, signature, vector in zip(chunks, signatures, vectors.tolist(), strict=True):
            yield {
                **shared,
                **{name: getattr(chunk, name) for name in ("id", *CHUNK_FIELDS)},
                "row": row,
                "signature": signature - (1 << 64) if signature >> 63 else signature,  # Milvus' numbers are signed
                "words": words_of(chunk.title, chunk.section, chunk.text, document.language),
                "vector": vector,
            }
            row += 1


def chunk_of(row: Mapping[str, Any]) -> StoredChunk:
    """Return a passage, which has the fields SHOWN, as it is shown."""
    about = row["about"]
    of_document = {name: about[name] for name in ("title", "language", "date", "content_type", "metadata")}
    of_passage = {name: row[name] for name in ("id", "url", "section", "text", "position")}
    return StoredChunk(document_url=about["url"], **of_document, **of_passage)


def document_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of all its passages, which have the fields SHOWN, JSON-ready."""
    facts = {name: found[0]["about"][name] for name in SHOWN_FIELDS}
    passages = [{name: row[name] for name in PASSAGE_FIELDS} for row in found]
    return {"id": document_id(facts["url"]), **facts, "passages": passages}


def digest(rows: Iterable[Mapping[str, Any]]) -> FileRecord:
    """Return the checksum and size of the content of passages, which have the fields DIGESTED."""
    sha, size = hashlib.sha256(), 0
    for row in rows:
        text = "\0".join(row[name] for name in DIGESTED[:-1]).encode("utf-8", "replace")
        for block in (text, np.array(row["vector"], np.float16).tobytes()):
            sha.update(block)
            size += len(block)
    return FileRecord(sha.hexdigest(), size)


def words_of(title: str, section: str, text: str, language: str | None = None) -> str:
    """Return the terms by which a chunk is found, with spaces between; what is too long for Milvus is left out."""
    words = " ".join(map(_token, terms_of_chunk(title, section, text, language).split()))
    return words if len(words) <= _TEXT else words[: _TEXT + 1].rpartition(" ")[0]


def _token(term: str) -> str:
    return term if _PLAIN.fullmatch(term) else f"0x{term.encode('utf-8', 'replace').hex()}"


def _number_of(term: str) -> int:
    """Return a number, 63 bits, in place of a term of a filter: none of its characters can mean anything to Milvus."""
    return int.from_bytes(hashlib.sha256(term.encode("utf-8", "replace")).digest()[:8], "big") >> 1


def expression(conditions: Sequence[Condition]) -> str:
    """Return the expression that is true of passages of documents of which these conditions hold."""
    return " and ".join(map(_test, conditions)) or _ALL


def _test(condition: Condition) -> str:
    match condition:
        case HasTerm(terms):
            return f"array_contains_any(terms, [{', '.join(str(_number_of(term)) for term in terms)}])"
        case LacksTerm(term):
            return f"not ({_test(HasTerm((term,)))})"
        case Dated(first, last):  # which are days, checked when the filter was read
            since = f'date >= "{first or "0000-00-00"}"'
            return f'{since} and date <= "{last}"' if last else since
        case AnyOf(alternatives):
            return f"({' or '.join(f'({expression(each)})' for each in alternatives) or _NONE})"


@dataclass(frozen=True, slots=True)
class MilvusQuery:
    """A query as Milvus is asked for it, which has all fields of a passage in one."""

    text: str  # any of these words
    phrases: tuple[tuple[str, ...], ...]  # and one reading of each of these, word after word
    excluded: tuple[tuple[str, ...], ...]  # and no reading of any of these

    @classmethod
    def of(cls, wanted: LexicalQuery) -> "MilvusQuery":
        """Put a query in the terms of Milvus."""

        def phrases(clauses: Sequence[Clause]) -> tuple[tuple[str, ...], ...]:
            return tuple(tuple(" ".join(map(_token, terms)) for terms in clause.readings) for clause in clauses)

        required = phrases(wanted.required)
        words = map(_token, chain(*wanted.words, *chain(*wanted.synonyms)))
        every = [*words, *(word for readings in required for reading in readings for word in reading.split())]
        return cls(" ".join(dict.fromkeys(every)), required, phrases(wanted.excluded))

    def tests(self) -> Iterable[str]:
        """Yield expressions that are true wherever all phrases are, and false wherever an excluded one is."""
        yield from map(_either, self.phrases)
        for readings in self.excluded:
            yield f"not ({_either(readings)})"

    def matches(self, words: str) -> bool:
        """Return whether what `words_of` gave holds all phrases."""
        return all(any(f" {phrase} " in f" {words} " for phrase in readings) for readings in self.phrases)


def _either(readings: Sequence[str]) -> str:
    """Return the expression that is true where all words of one of these are."""
    tests = [" and ".join(f"text_match(words, '{word}')" for word in dict.fromkeys(one.split())) for one in readings]
    return tests[0] if len(tests) == 1 else f"({' or '.join(f'({test})' for test in tests)})"
