"""A generation in Milvus: a collection of passages, and one of records that make it complete.

docs/milvus.md explains every field. Whatever a hit needs stands with its passage, so that one call fetches it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from indexer.filter import terms_of
from indexer.generation.catalogue import DocumentFacts, StoredDocument, StoredPassage, document_id
from indexer.generation.document_database import StoredChunk, flat_metadata, metadata_from_flat
from indexer.generation.manifest import Manifest
from indexer.generation.repetition import Shares
from indexer.records import EVERYBODY, Chunk, Document, PageRecord, access_from_json
from indexer.stores.milvus.milvus_query import number_of, words_of
from indexer.stores.store import ScannedDocument

SHOWN = ["row", "id", "url", "section", "text", "position", "about"]
STORED = [*SHOWN, "document", "content_hash", "tokens", "signature", "vector"]
EXPLORED = 256  # nodes of HNSW that a search looks at, at least
_HNSW_FROM = 2_000  # passages; fewer are compared one by one
_LINKS, _BUILDING = 32, 128  # of a node in HNSW; nodes looked at when one is added
_K1, _B = 1.2, 0.75  # those of the embedded store
_TEXT = 65_535  # bytes, the most that Milvus takes
_PART = 60_000  # characters of a record
SHARES = 1 << 40  # part of the first record that has shares
ORDER = 1 << 41  # part of the record that has the place in the order of publishing
_MOST_TERMS = 4_096
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

    The manifest is in parts -1, -2, …, the pages in parts 0, 1, …, shares of repetition from part SHARES on,
    and the place in the order of publishing in part ORDER.
    """
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=_TEXT)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # there is no collection without a vector
    return schema


def lease_schema() -> Any:
    """Return the schema of a collection that stays empty."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("part", DataType.INT64, is_primary=True)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # there is no collection without a vector
    return schema


def records_indexes() -> Any:
    """Return the index that the collection of records must have to be read."""
    from pymilvus import MilvusClient

    indexes = MilvusClient.prepare_index_params()
    indexes.add_index("unused", index_type="FLAT", metric_type="IP")
    return indexes


def page_records(pages: Iterable[PageRecord]) -> Iterator[dict[str, Any]]:
    """Yield pages as records."""
    text, number = "", 0
    for page in pages:
        text += json.dumps(asdict(page)) + "\n"
        while len(text) >= _PART:
            yield _record(number, text[:_PART])
            text, number = text[_PART:], number + 1
    yield _record(number, text)


def pages_in(bodies: Iterable[str]) -> Iterator[PageRecord]:
    """Yield the pages of records, in their order. Raises ValueError, TypeError or KeyError if they are none."""
    rest = ""
    for body in bodies:
        *lines, rest = (rest + body).split("\n")
        for line in lines:
            fields = json.loads(line)
            yield PageRecord(**(fields | {"links": tuple(fields["links"])}))


def share_records(shares: Shares) -> list[dict[str, Any]]:
    """Return the shares of all passages as records."""
    text = b64encode(shares.tobytes()).decode()
    return [_record(SHARES + place, text[at : at + _PART]) for place, at in enumerate(range(0, len(text), _PART))]


def shares_in(bodies: Iterable[str]) -> Shares:
    """Return the shares out of their records, in their order. Raises ValueError if they are none."""
    return np.frombuffer(b64decode("".join(bodies), validate=True), np.uint8)


def order_records(order: int) -> list[dict[str, Any]]:
    """Return the place of a generation in the order of publishing as a record."""
    return [_record(ORDER, str(order))]


def manifest_records(manifest: Manifest) -> list[dict[str, Any]]:
    """Return a manifest as records."""
    text = json.dumps(manifest.to_bytes().decode())
    return [_record(-1 - place, text[start : start + _PART]) for place, start in enumerate(range(0, len(text), _PART))]


def manifest_in(bodies: Iterable[str]) -> bytes:
    """Return the bytes of a manifest out of its records, in their order. Raises ValueError if they are none."""
    return str(json.loads("".join(bodies))).encode("utf-8", "replace")


def passages(entry: ScannedDocument, number: int, first_row: int) -> Iterator[dict[str, Any]]:
    """Yield the passages of a document, of this number, as Milvus stores them."""
    document = entry.document
    about = {name: getattr(document, name) for name in _DOCUMENT} | {"metadata": flat_metadata(document)}
    about |= {} if document.access == EVERYBODY else {"access": list(document.access)}
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
    vectors = entry.vectors.tolist()
    for offset, (chunk, signature) in enumerate(zip(entry.chunks, entry.signatures, strict=True)):
        yield shared | {
            "row": first_row + offset,
            "id": chunk.id,
            "position": chunk.position,
            "url": chunk.url,
            "section": chunk.section,
            "text": chunk.text,
            "content_hash": chunk.content_hash,
            "tokens": chunk.tokens,
            "signature": signature - (1 << 64) if signature >> 63 else signature,  # Milvus has no unsigned numbers
            "words": words_of(chunk.title, chunk.section, chunk.text, document.language),
            "vector": vectors[offset],
        }


def scanned_document(found: list[dict[str, Any]]) -> ScannedDocument:
    """Return the document of all its passages, which have the fields STORED."""
    about = found[0]["about"]
    url, title = about["url"], about["title"]
    metadata = metadata_from_flat(about["metadata"])
    access = access_from_json(about.get("access"))
    document = Document(sections=(), metadata=metadata, access=access, **{name: about[name] for name in _DOCUMENT})
    chunks = [
        Chunk(
            document_url=url,
            title=title,
            embedded_text="",
            **{name: row[name] for name in ("id", "url", "section", "text", "content_hash", "tokens", "position")},
        )
        for row in found
    ]
    vectors: npt.NDArray[np.float32] = np.array([row["vector"] for row in found], dtype=np.float32)
    return ScannedDocument(document, chunks, [signature_of(row) for row in found], vectors)


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


def _record(part: int, body: str) -> dict[str, Any]:
    return {"part": part, "body": body, "unused": [0.0, 0.0]}
