"""Write the files of an index generation. Each chunk has the same row number in all files."""

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
from indexer.generation.editions import learn_versions, sketch
from indexer.generation.lexical.analysis import find_words
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.manifest import DOCUMENTS, LEXICAL, ROWS, TOKENS, VECTORS, Counts, FileRecord
from indexer.generation.rows import ROW, TokenWriter
from indexer.generation.vectors import VectorWriter
from indexer.records import EVERYBODY, Chunk, Document

_SHINGLE_WORDS = 3
_DIGESTS = [hashlib.blake2b(bytes([number]), digest_size=8).digest() for number in range(64)]
_BIT_FACTORS = np.array([int.from_bytes(digest, "little") | 1 for digest in _DIGESTS], dtype=np.uint64)
_WORD_FACTORS = _BIT_FACTORS[:_SHINGLE_WORDS]


class GenerationWriter:
    """Writes the files of a new generation. Call `finish` to complete them, and always `close` at the end."""

    def __init__(self, folder: Path, dimension: int, *, tokens: bool = False) -> None:
        """Create the files, including a file of token vectors if `tokens` is true. Raises OSError or sqlite3.Error."""
        self._folder = folder
        self._dimension = dimension
        self.documents = DocumentWriter(folder / DOCUMENTS)
        self.vectors = VectorWriter(dimension)
        self._rows: list[npt.NDArray[np.void]] = []
        self.lexical = LexicalWriter(folder / LEXICAL)
        self.tokens = TokenWriter(folder) if tokens else None
        self.schema_version = manifests.SCHEMA_VERSION

    @property
    def counts(self) -> Counts:
        """Return the numbers of documents and chunks added so far."""
        return Counts(self.documents.documents, self.documents.chunks, self._dimension)

    @property
    def versions(self) -> dict[str, tuple[str, str]]:
        """Return `Manifest.versions` for the documents added so far."""
        signatures = (int(rows["signature"][0]) if len(rows) else 0 for rows in self._rows)
        documents = zip(self.documents.titles(), signatures, strict=True)
        return learn_versions((*facts, signature) for facts, signature in documents)

    def add(
        self, document: Document, chunks: Sequence[Chunk], reused: tuple[Sequence[int], bytes] | None = None
    ) -> int:
        """Store a document, and its chunks at the next rows. Return the similarity hash of the first chunk.

        The caller adds the vectors and tokens of the chunks later.

        Args:
            reused: for an unchanged document, the similarity hashes of its chunks, and its `editions.sketch`. If None,
                both are computed.
        """
        terms = terms_of(document)
        if document.access != EVERYBODY:
            self.schema_version = manifests.RESTRICTED_VERSION
        hashes = [np.empty(0, np.uint64)]
        for row, chunk in enumerate(chunks, self.documents.chunks):
            if reused is None:
                hashes.append(word_hashes(chunk.text))  # caches the words for `lexical.add`
            self.lexical.add(
                row,
                title=chunk.title,
                section=chunk.section,
                text=chunk.text,
                url=chunk.url,
                terms=terms,
                date=document.date,
                language=document.language,
            )
        signatures, hash_sketch = reused or (list(map(signature_of, hashes[1:])), sketch(np.concatenate(hashes)))
        rows = np.empty(len(chunks), ROW)
        rows["document"], rows["signature"] = self.documents.documents, signatures
        self._rows.append(rows)
        self.documents.add(document, chunks, terms, hash_sketch)
        return signatures[0]

    def drop_tokens(self) -> None:
        """Delete the file of token vectors, so that the generation has none. Raises OSError if it fails."""
        if self.tokens is not None:
            self.tokens.close()
            self.tokens = None
            (self._folder / TOKENS).unlink()

    def finish(self) -> dict[str, FileRecord]:
        """Complete all files. Return the size and checksum of each file by name.

        Raises:
            VectorError: the number of chunks differs from the number of vectors, or of passages with token vectors.
            OSError, sqlite3.Error: the disk is full or failing.
        """
        if self.vectors.count != self.documents.chunks:
            raise VectorError(f"{self.vectors.count:,} vectors were made for {self.documents.chunks:,} chunks")
        if self.tokens is not None:
            if self.tokens.count != self.documents.chunks:
                raise VectorError(f"tokens were made for {self.tokens.count:,} of {self.documents.chunks:,} chunks")
            self.tokens.finish()
        self.documents.finish()
        np.save(self._folder / ROWS, np.concatenate([np.empty(0, ROW), *self._rows]), allow_pickle=False)
        self.lexical.finish()
        self.vectors.write(self._folder / VECTORS)
        files = sorted(path for path in self._folder.rglob("*") if path.is_file())
        return {path.relative_to(self._folder).as_posix(): manifests.record_file(path) for path in files}

    def close(self) -> None:
        """Close the files, even if they are incomplete."""
        self.documents.close()
        self.lexical.close()
        if self.tokens is not None:
            self.tokens.close()


def word_hashes(text: str) -> npt.NDArray[np.uint64]:
    """Return the hashes of the words of a text in order, ignoring case and accents."""
    return np.fromiter(map(_hash, find_words(text)), dtype=np.uint64)


def signature_of(hashes: npt.NDArray[np.uint64]) -> int:
    """Return a hash that is similar for similar texts: 64 one-bit MinHashes of a text's sequences of three words."""
    shingles = np.zeros(max(len(hashes) - _SHINGLE_WORDS + 1, 1), dtype=np.uint64)
    for place, factor in enumerate(_WORD_FACTORS):
        products = hashes[place : place + len(shingles)] * factor
        shingles[: len(products)] += products
    shingles ^= shingles >> np.uint64(32)  # mix high bits into low bits; a product only carries upwards
    lowest = (shingles[:, np.newaxis] * _BIT_FACTORS).min(axis=0)
    bits = (lowest * _BIT_FACTORS) >> np.uint64(63)
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


@lru_cache(maxsize=1 << 15)
def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(fold(word).encode("utf-8", "replace"), digest_size=8).digest(), "little")
