"""A checksum of what a generation holds, whatever the store: two are equal if a search could not tell them apart."""

import hashlib
import json
from dataclasses import fields
from typing import Any

import numpy as np

from indexer.generation.manifest import FileRecord
from indexer.records import EVERYBODY, Chunk, Document
from indexer.stores.store import GenerationScan, ScannedDocument


class Digest:
    """Takes in documents in the order of the index; pages do not count."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._size = 0

    def add(self, entry: ScannedDocument) -> None:
        """Take in a document with its chunks, signatures and vectors."""
        document, chunks, signatures, vectors, _ = entry  # not every store keeps tokens
        content = [_fields(document), [_fields(chunk) for chunk in chunks], list(signatures)]
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=dict).encode("utf-8", "replace")
        for block in (text, np.ascontiguousarray(vectors, dtype=np.float16).tobytes()):
            self._hash.update(block)
            self._size += len(block)

    def record(self) -> FileRecord:
        """Return the SHA-256 of all that was taken in, and how many bytes it was."""
        return FileRecord(self._hash.hexdigest(), self._size)


def digest_of(reading: GenerationScan) -> str:
    """Return the SHA-256, in hex, of a generation; streams, so memory does not grow with it. Raises as a scan does."""
    digest = Digest()
    for entry in reading.entries():
        digest.add(entry)
    return digest.record().sha256


def _fields(record: Document | Chunk) -> dict[str, Any]:
    found = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "notes"}
    if found.get("access") == EVERYBODY:  # so that what was published before there were lists keeps its checksum
        del found["access"]
    return found
