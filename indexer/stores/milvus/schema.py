"""A generation in Milvus: a collection of passages, and one of records that make it complete.

All that a hit shows is stored with its passage, so that one call fetches it.
"""

import hashlib
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from indexer.filter import AnyOf, Condition, Dated, Filter, HasTerm, LacksTerm, terms_of
from indexer.generation.documents import (
    DocumentFacts,
    StoredChunk,
    StoredDocument,
    StoredPassage,
    document_id,
    flat_metadata,
)
from indexer.generation.lexical.lexical_query import Clause, LexicalQuery
from indexer.generation.lexical.lexical_writer import terms_of_chunk
from indexer.generation.likeness import Shares
from indexer.generation.manifest import FileRecord, Manifest
from indexer.stores.store import ScannedDocument

SHOWN = ["row", "id", "url", "section", "text", "position", "about"]
DIGESTED = ["id", "url", "section", "text", "vector"]
EXPLORED = 256  # nodes of HNSW that a search looks at, at least
_HNSW_FROM = 2_000  # passages; fewer are compared one by one
_LINKS, _BUILDING = 32, 128  # of a node in HNSW; nodes looked at when one is added
_K1, _B = 1.2, 0.75  # those of the embedded store
_TEXT = 65_535  # bytes, the most that Milvus takes
_PART = 60_000  # characters of a record
SHARES = 1 << 40  # part of the first record that has shares
ORDER = 1 << 41  # part of a record of older programs
_MOST_TERMS = 4_096
_PLAIN = re.compile(r"(?!0x)[a-z0-9]+")
_ALL, _NONE = "row >= 0", "row < 0"  # expressions that are true of every passage, and of none

_DOCUMENT = (
    "url", "source", "title", "content_hash", "etag", "last_modified", "fetched_at", "content_type", "language", "date"
)  # fmt: skip


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
    schema.add_field(
        "words",
        DataType.VARCHAR,
        max_length=_TEXT,
        enable_analyzer=True,
        enable_match=True,
        analyzer_params={"tokenizer": "standard"},
    )
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(
        Function(
            name="bm25",
            function_type=FunctionType.BM25,
            input_field_names=["words"],
            output_field_names=["sparse"],
        )
    )
    return schema


def passages_indexes(count: int) -> Any:
    """Return the indexes over so many passages. Their parameters are nested once more, for Milvus Lite."""
    from pymilvus import MilvusClient

    indexes = MilvusClient.prepare_index_params()
    if count < _HNSW_FROM:
        indexes.add_index("vector", index_type="FLAT", metric_type="IP")
    else:
        links = {"M": _LINKS, "efConstruction": _BUILDING}
        indexes.add_index("vector", index_type="HNSW", metric_type="IP", params={"params": links})
    weights = {"bm25_k1": _K1, "bm25_b": _B}
    indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params={"params": weights})
    return indexes


def filter_indexes() -> Any:
    """Return the indexes that make filters fast; Milvus Lite has none for the last."""
    from pymilvus import MilvusClient

    indexes = MilvusClient.prepare_index_params()
    for field in ("date", "document", "document_id", "terms"):
        indexes.add_index(field, index_type="INVERTED")
    return indexes


def records_schema() -> Any:
    """Return the schema of the collection of records.

    The manifest is in parts -1, -2, …, and shares of repetition are in parts from SHARES up to ORDER.
    """
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=_TEXT)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # there is no collection without a vector
    return schema


def records_indexes() -> Any:
    """Return the index that the collection of records must have to be read."""
    from pymilvus import MilvusClient

    indexes = MilvusClient.prepare_index_params()
    indexes.add_index("unused", index_type="FLAT", metric_type="IP")
    return indexes


def share_records(shares: Shares) -> list[dict[str, Any]]:
    """Return the shares of all passages as records."""
    text = b64encode(shares.tobytes()).decode()
    return [_record(SHARES + place, text[at : at + _PART]) for place, at in enumerate(range(0, len(text), _PART))]


def shares_in(bodies: Iterable[str]) -> Shares:
    """Return the shares out of their records, in their order. Raises ValueError if they are none."""
    return np.frombuffer(b64decode("".join(bodies), validate=True), np.uint8)


def manifest_records(manifest: Manifest) -> list[dict[str, Any]]:
    """Return a manifest as records."""
    text = json.dumps(manifest.to_bytes().decode())
    return [_record(-1 - place, text[start : start + _PART]) for place, start in enumerate(range(0, len(text), _PART))]


def manifest_in(bodies: Iterable[str]) -> bytes:
    """Return the bytes of a manifest out of its records, in their order. Raises ValueError if they are none."""
    return str(json.loads("".join(bodies))).encode("utf-8", "replace")


def passages(documents: Iterable[ScannedDocument]) -> Iterator[dict[str, Any]]:
    """Yield the passages of documents as Milvus stores them."""
    row = 0
    for number, (document, chunks, signatures, vectors) in enumerate(documents):
        about = {name: getattr(document, name) for name in _DOCUMENT} | {"metadata": flat_metadata(document)}
        shared = {
            "document": number,
            "document_id": document_id(document.url),
            "about": about,
            "source": document.source,
            "language": document.language or "",
            "content_type": document.content_type,
            "date": document.date or "",
            "terms": [number_of(term) for term in terms_of(document)],
        }
        for chunk, signature, vector in zip(chunks, signatures, vectors.tolist(), strict=True):
            yield shared | {
                "row": row,
                "id": chunk.id,
                "position": chunk.position,
                "url": chunk.url,
                "section": chunk.section,
                "text": chunk.text,
                "content_hash": chunk.content_hash,
                "tokens": chunk.tokens,
                "signature": signature - (1 << 64) if signature >> 63 else signature,  # Milvus' numbers are signed
                "words": words_of(chunk.title, chunk.section, chunk.text, document.language),
                "vector": vector,
            }
            row += 1


def signature_of(row: Mapping[str, Any]) -> int:
    """Return the signature of a passage, 64 bits."""
    return int(row["signature"]) & ((1 << 64) - 1)


def chunk_of(row: Mapping[str, Any]) -> StoredChunk:
    """Return a passage, which has the fields SHOWN, as it is shown."""
    about = row["about"]
    return StoredChunk(
        id=row["id"],
        url=row["url"],
        document_url=about["url"],
        title=about["title"],
        section=row["section"],
        text=row["text"],
        position=row["position"],
        language=about["language"],
        date=about["date"],
        content_type=about["content_type"],
        metadata=about["metadata"],
    )


def document_of(found: list[dict[str, Any]]) -> StoredDocument:
    """Return the document of all its passages, which have the fields SHOWN, as it is shown."""
    about = found[0]["about"]
    return StoredDocument(
        id=document_id(about["url"]),
        passages=[StoredPassage(row["id"], row["url"], row["section"], row["text"]) for row in found],
        **{name: about[name] for name in StoredDocument._fields[1:-1]},
    )


def facts_of(row: Mapping[str, Any]) -> DocumentFacts:
    """Return the facts of a document from one of its passages."""
    return DocumentFacts(*(row["about"][name] for name in DocumentFacts._fields))


def digest(rows: Iterable[Mapping[str, Any]]) -> FileRecord:
    """Return the checksum and size of the content of passages, which have the fields DIGESTED."""
    sha, size = hashlib.sha256(), 0
    for row in rows:
        text = "\0".join(row[name] for name in DIGESTED[:-1]).encode("utf-8", "replace")
        for block in (text, np.array(row["vector"], np.float16).tobytes()):
            sha.update(block)
            size += len(block)
    return FileRecord(sha.hexdigest(), size)


def _record(part: int, body: str) -> dict[str, Any]:
    return {"part": part, "body": body, "unused": [0.0, 0.0]}


def words_of(title: str, section: str, text: str, language: str | None = None) -> str:
    """Return the terms by which a chunk is found, with spaces between; what is too long for Milvus is left out."""
    words = " ".join(map(_token, terms_of_chunk(title, section, text, language).split()))
    return words if len(words) <= _TEXT else words[: _TEXT + 1].rpartition(" ")[0]


def number_of(term: str) -> int:
    """Return a number, 63 bits, in place of a term of a filter: none of its characters can mean anything to Milvus."""
    return int.from_bytes(hashlib.sha256(term.encode("utf-8", "replace")).digest()[:8], "big") >> 1


def expression(only: Filter) -> str:
    """Return the expression that is true of the passages of the documents that a filter allows."""
    return _all_of(only.conditions())


def _all_of(conditions: Sequence[Condition]) -> str:
    return " and ".join(map(_test, conditions)) or _ALL


def _test(condition: Condition) -> str:
    match condition:
        case HasTerm(terms):
            return f"array_contains_any(terms, [{', '.join(str(number_of(term)) for term in terms)}])"
        case LacksTerm(term):
            return f"not ({_test(HasTerm((term,)))})"
        case Dated(first, last):  # which are days, checked when the filter was read
            since = f'date >= "{first or "0000-00-00"}"'
            return f'{since} and date <= "{last}"' if last else since
        case AnyOf(alternatives):
            return f"({' or '.join(f'({_all_of(each)})' for each in alternatives) or _NONE})"


@dataclass(frozen=True, slots=True)
class MilvusQuery:
    """A query as Milvus is asked for it."""

    text: str  # any of these words
    phrases: tuple[tuple[str, ...], ...]  # and one reading of each of these, word after word
    excluded: tuple[tuple[str, ...], ...]  # and no reading of any of these

    @classmethod
    def of(cls, wanted: LexicalQuery) -> "MilvusQuery":
        """Put a query in the terms of Milvus, which has all fields of a passage in one."""
        phrases, excluded = (tuple(map(_phrases, clauses)) for clauses in (wanted.required, wanted.excluded))
        synonyms = (" ".join(map(_token, terms)) for readings in wanted.synonyms for terms in readings)
        texts = (*(_token(term) for forms in wanted.words for term in forms), *synonyms, *chain(*phrases))
        return cls(" ".join(dict.fromkeys(word for text in texts for word in text.split())), phrases, excluded)

    def tests(self) -> Iterable[str]:
        """Yield expressions that are true wherever all phrases are, and false wherever an excluded one is."""
        for readings in self.phrases:
            yield _either(readings)
        for readings in self.excluded:
            yield f"not ({_either(readings)})"

    def matches(self, words: str) -> bool:
        """Return whether what `words_of` gave holds all phrases."""
        return all(any(f" {phrase} " in f" {words} " for phrase in readings) for readings in self.phrases)


def _phrases(clause: Clause) -> tuple[str, ...]:
    return tuple(" ".join(map(_token, terms)) for terms in clause.readings)


def _either(readings: Sequence[str]) -> str:
    """The expression that is true where all words of one of these are."""
    tests = [" and ".join(f"text_match(words, '{word}')" for word in dict.fromkeys(one.split())) for one in readings]
    return tests[0] if len(tests) == 1 else f"({' or '.join(f'({test})' for test in tests)})"


def _token(term: str) -> str:
    return term if _PLAIN.fullmatch(term) else f"0x{term.encode('utf-8', 'replace').hex()}"
