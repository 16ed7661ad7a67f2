"""Write the files of a generation. A chunk has the same row in each of them."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from indexer.errors import VectorError
from indexer.filter import terms_of
from indexer.generation import manifest as manifests
from indexer.generation.documents import DocumentWriter
from indexer.generation.lexical.analysis import find_words
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.manifest import DOCUMENTS, LEXICAL, ROWS, VECTORS, Counts, FileRecord
from indexer.generation.rows import ROW, TokenWriter
from indexer.generation.twins import sketch
from indexer.generation.vectors import VectorWriter
from indexer.generation.versions import learn
from indexer.records import EVERYBODY, Chunk, Document

_SHINGLE = 3  # words
_DIGESTS = [hashlib.blake2b(bytes([number]), digest_size=8).digest() for number in range(64)]
_ORDERS = np.array([int.from_bytes(digest, "little") | 1 for digest in _DIGESTS], dtype=np.uint64)  # each gives a bit
_PLACES = _ORDERS[:_SHINGLE]  # one for each word of a shingle, so that their order counts


class GenerationWriter:
    """Fills the folder of a new generation; `close` gives the files back, complete or not."""

    def __init__(self, folder: Path, dimension: int, *, tokens: bool = False) -> None:
        """Make the files, of tokens if wanted; raises OSError or sqlite3.Error if the folder cannot be written."""
        self._folder = folder
        self._dimension = dimension
        self.documents = DocumentWriter(folder / DOCUMENTS)
        self.vectors = VectorWriter(dimension)
        self._rows: list[npt.NDArray[np.void]] = []
        self._lexical = LexicalWriter(folder / LEXICAL)
        self.tokens = TokenWriter(folder) if tokens else None
        self.schema_version = manifests.SCHEMA_VERSION

    @property
    def counts(self) -> Counts:
        """Numbers of documents and chunks added so far."""
        return Counts(self.documents.documents, self.documents.chunks, self._dimension)

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the `languages` of the manifest for the documents so far."""
        return self._lexical.languages

    @property
    def versions(self) -> dict[str, tuple[str, str]]:
        """Return the `versions` of the manifest for the documents so far."""
        first = (int(rows["signature"][0]) if len(rows) else 0 for rows in self._rows)
        return learn((*facts, signature) for facts, signature in zip(self.documents.titles(), first, strict=True))

    def add(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        signatures: Sequence[int] | None = None,
        known_sketch: bytes | None = None,
    ) -> int:
        """Store a document and its chunks, which get the next rows; the caller adds their `vectors` and `tokens` later.

        `signatures` of the chunks' texts, and the sketch of all, are given where they are known. Returns the first
        signature.
        """
        number, row = self.documents.documents, self.documents.chunks
        terms = terms_of(document)
        if document.access != EVERYBODY:
            self.schema_version = manifests.RESTRICTED_VERSION
        words: list[npt.NDArray[np.uint64]] = []
        rows = np.empty(len(chunks), ROW)
        rows["document"] = number
        rows["signature"] = 0 if signatures is None else signatures
        self._rows.append(rows)
        for place, chunk in enumerate(chunks):
            if signatures is None or known_sketch is None:
                words.append(word_hashes(chunk.text))  # right before its words are asked for again
            self._lexical.add(
                row + place,
                title=chunk.title,
                section=chunk.section,
                text=chunk.text,
                url=chunk.url,
                terms=terms,
                date=document.date,
                language=document.language,
            )
        if signatures is None:
            rows["signature"] = list(map(signature_of, words))
        self.documents.add(
            document, chunks, terms, sketch(np.concatenate(words)) if known_sketch is None else known_sketch
        )
        return int(rows["signature"][0])

    def drop_tokens(self) -> None:
        """Drop all tokens; raises OSError."""
        if self.tokens is not None:
            self.tokens.remove()
            self.tokens = None

    def finish(self) -> dict[str, FileRecord]:
        """Complete every file; return their records by name.

        Raises VectorError if there are not as many vectors, or tokens, as chunks; OSError or sqlite3.Error of the disk.
        """
        if self.vectors.count != self.documents.chunks:
            raise VectorError(f"{self.vectors.count:,} vectors were made for {self.documents.chunks:,} chunks")
        if self.tokens is not None:
            if self.tokens.count != self.documents.chunks:
                raise VectorError(f"tokens of {self.tokens.count:,} of {self.documents.chunks:,} chunks were made")
            self.tokens.finish()
        self.documents.finish()
        np.save(self._folder / ROWS, np.concatenate([np.empty(0, ROW), *self._rows]), allow_pickle=False)
        self._lexical.finish()
        self.vectors.write(self._folder / VECTORS)
        files = sorted(path for path in self._folder.rglob("*") if path.is_file())
        return {path.relative_to(self._folder).as_posix(): manifests.record_file(path) for path in files}

    def close(self) -> None:
        """Release the files."""
        self.documents.close()
        self._lexical.close()
        if self.tokens is not None:
            self.tokens.close()


def signature(text: str) -> int:
    """Return the signature of a text, 64 bits. Case, accents, punctuation and white space do not count."""
    return signature_of(word_hashes(text))


def word_hashes(text: str) -> npt.NDArray[np.uint64]:
    """Return a hash of each word of a text, folded, in order."""
    return np.fromiter(map(_hash, find_words(text)), dtype=np.uint64)


def signature_of(hashes: npt.NDArray[np.uint64]) -> int:
    """Return the signature of a text by the hashes of its words."""
    shingles = np.zeros(max(len(hashes) - _SHINGLE + 1, 1), dtype=np.uint64)
    for place, factor in enumerate(_PLACES):
        part = hashes[place : place + len(shingles)] * factor
        shingles[: len(part)] += part
    shingles ^= shingles >> np.uint64(32)  # products carry upwards only: bring what the high bits know to the low ones
    first = (shingles[:, np.newaxis] * _ORDERS).min(axis=0)
    bits = (first * _ORDERS) >> np.uint64(63)
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


@lru_cache(maxsize=1 << 15)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(fold(word).encode("utf-8", "replace"), digest_size=8).digest(), "little")
