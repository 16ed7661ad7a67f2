"""Checks of a published generation: every file, every count, and the parts against one another."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.protocol import Embedder, encode_documents
from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker, hash_text, with_context
from indexer.errors import IndexerError, IndexUnreadable, counted
from indexer.filter import access_of, terms_of
from indexer.generation.dense.vectors import VectorReader
from indexer.generation.document_database import metadata_from_json, open_read_only
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.manifest import (
    DOCUMENTS,
    LEXICAL,
    MANIFEST,
    REPETITION,
    ROWS,
    TOKENS,
    VECTORS,
    Manifest,
    check_files,
    corrupt,
    differing_fields,
    read_manifest,
)
from indexer.generation.repetition import RepetitionCounter, read_shares
from indexer.generation.rows import read_rows
from indexer.generation.signature import signature
from indexer.generation.tokens import open_tokens
from indexer.records import EVERYBODY, SEPARATOR, Document, Section

SAMPLE = 32  # passages that are embedded again, evenly spaced
_ALIKE = 0.999  # cosine of a stored vector and the same text embedded again
_SAME_SIGNS = 0.9  # of the signs of tokens: another engine in int8 differs in some %, another text in half of them


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    what: str  # what was found: the fault if it is not ok


def verify(folder: Path, embedder: Embedder | None = None) -> list[Check]:
    """Check a generation's folder.

    Nothing is opened that differs from its checksum, so checks that would need it are left out. Raises IndexUnreadable
    if a file cannot be read for a reason that says nothing about it.

    Args:
        folder: of the generation.
        embedder: embeds a sample of the passages again, to compare it with the stored vectors; left out without one.
    """
    checks = [_run("manifest", lambda: _manifest(folder))]
    if problems_of(checks):
        return checks
    manifest = read_manifest(folder)
    checks += [_run(f"file {name}", partial(_file, folder, manifest, name)) for name in manifest.files]
    checks.append(_run("other files", lambda: _strangers(folder, manifest)))
    if problems_of(checks):
        return checks
    try:
        parts = _Parts(folder, manifest)
    except IndexerError as error:
        return [*checks, Check("opening", False, str(error))]
    with closing(parts):
        for name, check in (
            ("database", parts.database),
            ("counts", parts.counts),
            ("documents", parts.documents),
            ("terms", parts.terms),
            ("signatures", parts.signatures),
            ("repetition", parts.repetition),
        ):
            if not problems_of(checks):  # each relies on those before it
                checks.append(_run(name, check))
        if embedder is not None and not problems_of(checks):
            checks.append(_run("embedding", lambda: parts.embedding(embedder)))
    return checks


def problems_of(checks: list[Check]) -> list[str]:
    """Return the problems that checks found, a line each."""
    return [check.what for check in checks if not check.ok]


def _run(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except IndexUnreadable:
        raise
    except IndexerError as error:
        return Check(name, False, str(error))


def _manifest(folder: Path) -> str:
    manifest = read_manifest(folder)
    return f"schema version {manifest.schema_version}, {len(manifest.files)} files"


def _file(folder: Path, manifest: Manifest, name: str) -> str:
    record = manifest.files[name]
    check_files(folder, replace(manifest, files={name: record}))
    return f"{record.size:,} bytes, SHA-256 {record.sha256[:12]}…"


def _strangers(folder: Path, manifest: Manifest) -> str:
    known = {folder / name for name in (MANIFEST, *manifest.files)}
    strangers = sorted(path for path in folder.rglob("*") if not path.is_dir() and path not in known)
    if strangers:
        raise corrupt(strangers[0], "is not part of the generation")
    return "none"


class _Parts:
    """The files of one generation, open; every method is one check, which raises IndexCorrupt or says what it saw."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._manifest = manifest
        self._path = folder / DOCUMENTS
        self._vectors_path, self._rows_path, self._lexical_path = folder / VECTORS, folder / ROWS, folder / LEXICAL
        self._vectors = VectorReader(self._vectors_path)
        self._tokens = open_tokens(folder, manifest)
        self._rows = read_rows(self._rows_path)
        self._lexical = LexicalReader(self._lexical_path, manifest.languages)
        try:
            self._database = open_read_only(self._path)
        except sqlite3.Error as error:
            raise corrupt(self._path, f"cannot be opened ({error})") from error

    def close(self) -> None:
        self._database.close()

    def database(self) -> str:
        found = [text for (text,) in self._select("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise corrupt(self._path, f"fails its integrity check ({found[0]})")
        for table, row, parent, _ in self._select("PRAGMA foreign_key_check"):
            raise corrupt(self._path, f"refers from {table} row {row} to a missing row of {parent}")
        return "integrity and foreign keys hold"

    def counts(self) -> str:
        counts = self._manifest.counts
        [(documents, chunks)] = self._select("SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks)")
        for path, what, found, wanted in (
            (self._path, "documents", documents, counts.documents),
            (self._path, "chunks", chunks, counts.chunks),
            (self._vectors_path, "vectors", self._vectors.count, counts.chunks),
            (self._vectors_path, "dimensions", self._vectors.dimension, counts.dimension),
            (self._lexical_path, "passages", self._lexical.count, counts.chunks),
            (self._rows_path, "rows", len(self._rows), counts.chunks),
        ):
            if found != wanted:
                raise corrupt(path, f"holds {found:,} {what} instead of {wanted:,}")
        self._lexical.check_rows()
        return f"{counted(documents, 'document')} and {counted(chunks, 'chunk')} in all four stores"

    def documents(self) -> str:
        spans = self._numbers("SELECT id, first_row, chunks FROM documents ORDER BY first_row", 3)
        chunks = self._numbers("SELECT row, document, position FROM chunks ORDER BY row", 3)
        starts = np.cumsum(spans[:, 2]) - spans[:, 2]
        row = np.arange(len(chunks))
        if spans[:, 2].sum() != len(chunks) or (starts != spans[:, 1]).any() or (row != chunks[:, 0]).any():
            raise corrupt(self._path, "has documents whose rows leave gaps or overlap")
        owner = np.repeat(np.arange(len(spans)), spans[:, 2])
        wrong = (spans[owner, 0] != chunks[:, 1]) | (row - starts[owner] != chunks[:, 2])
        if wrong.any():
            raise corrupt(self._path, f"has chunk {int(np.argmax(wrong))} under the wrong document or position")
        if (self._rows["document"] != chunks[:, 1]).any():
            raise corrupt(self._rows_path, "gives chunks to other documents than the database does")
        return "every document's rows follow one another"

    def terms(self) -> str:
        stored = groupby(self._select("SELECT document, term FROM terms ORDER BY document"), itemgetter(0))
        total, is_restricted = 0, False
        for document_id, document in self._each_document():
            owner, group = next(stored, (None, iter(())))
            found = [term for _, term in group]
            access = access_of(sorted(found))  # which stands nowhere else
            is_restricted |= access != EVERYBODY
            wanted = set(terms_of(replace(document, access=access)))
            if owner != document_id or set(found) != wanted:
                raise corrupt(self._path, f"has other filter terms for {document.url} than it should")
            total += len(wanted)
        if next(stored, None) is not None:
            raise corrupt(self._path, "has filter terms of documents that are not there")
        if is_restricted != self._manifest.is_restricted:
            raise corrupt(self._path, "has access lists, or has none, other than its manifest says")
        return f"{counted(total, 'filter term')} checked against the documents"

    def signatures(self) -> str:
        rows = self._sample()
        for row, (text,) in self._chunks("text", rows):
            if self._rows["signature"][row] != signature(text):
                raise corrupt(self._rows_path, f"has another signature for chunk {row} than its text gives")
        return f"{counted(len(rows), 'signature')} checked against the text"

    def repetition(self) -> str:
        if REPETITION not in self._manifest.files:
            return "is not known: the index is of an older program"
        path = self._vectors_path.with_name(REPETITION)
        counter = RepetitionCounter()
        passages = "SELECT title, text FROM chunks JOIN documents ON documents.id = document ORDER BY row"
        for title, text in self._select(passages):
            counter.add(title, [text])
        made = counter.shares()
        if (read_shares(path, len(self._rows)) != made).any():
            raise corrupt(path, "has other shares than the passages give")
        return f"{np.count_nonzero(made):,} passages have lines that repeat"

    def embedding(self, embedder: Embedder) -> str:
        if fields := differing_fields(self._manifest.fingerprint, embedder.fingerprint):
            names = ", ".join(fields)
            raise corrupt(self._vectors_path, f"was built with a different embedder than the settings name ({names})")
        chunker = Chunker(embedder, ChunkConfig())
        rows, texts = [], []
        for row, (title, section, text, digest) in self._chunks(
            "title, section, text, chunks.content_hash", self._sample()
        ):
            path = tuple(section.split(SEPARATOR)) if section else ()
            # a heading that begins the section's text is left out of what the model reads; the hash says which it was
            contexts = [chunker.context(title, Section(path, None, start)) for start in ("", path[-1] if path else "")]
            read = [with_context(text, context) for context in contexts]
            found = [candidate for candidate in read if hash_text(candidate) == digest]
            if found:
                rows.append(row)
                texts.append(found[0])
        if not rows:
            raise corrupt(self._path, "has no passage whose text is what its content_hash says was embedded")
        stored = self._vectors.vectors(np.array(rows, dtype=np.int64))
        made, signs, token_counts = encode_documents(embedder, texts, tokens=self._tokens is not None)
        norms = np.linalg.norm(stored, axis=1) * np.linalg.norm(made, axis=1)
        cosines = np.einsum("ij,ij->i", stored, made) / np.maximum(norms, np.finfo(np.float32).tiny)
        worst = int(np.argmin(cosines))
        if not cosines[worst] >= _ALIKE:
            raise corrupt(
                self._vectors_path,
                f"has another vector for chunk {rows[worst]} than its text gives ({cosines[worst]:.4f})",
            )
        told = f"{counted(len(rows), 'passage')} embedded again, cosine with what is stored ≥ {cosines[worst]:.4f}"
        if self._tokens is None:
            return told
        kept, kept_counts = self._tokens.read(np.array(rows, dtype=np.int64))
        tokens_path = self._vectors_path.with_name(TOKENS)
        if (kept_counts != token_counts).any():
            raise corrupt(
                tokens_path, f"has other tokens for chunk {rows[int(np.argmax(kept_counts != token_counts))]}"
            )
        equal = 1 - float(np.unpackbits(kept ^ signs).mean())
        if equal < _SAME_SIGNS:
            raise corrupt(tokens_path, f"has other signs of tokens than the texts give ({equal:.1%} are the same)")
        return f"{told}; {equal:.2%} of the signs of their tokens are the same"

    def _sample(self) -> npt.NDArray[np.int64]:
        count = self._manifest.counts.chunks
        return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))

    def _chunks(self, columns: str, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, tuple[str, ...]]]:
        for row in rows.tolist():
            query = f"SELECT {columns} FROM chunks JOIN documents ON documents.id = document WHERE row = {row}"  # noqa: S608
            for values in self._select(query):
                yield row, values

    def _each_document(self) -> Iterator[tuple[int, Document]]:
        columns = "id, url, source, content_type, language, date, metadata"
        for number, url, source, content_type, language, date, metadata in self._select(
            f"SELECT {columns} FROM documents ORDER BY id"  # noqa: S608 - the columns stand above
        ):
            try:
                pairs = metadata_from_json(metadata)
            except (ValueError, AttributeError, TypeError) as error:
                raise corrupt(self._path, f"has metadata of {url} that is not a JSON object of texts") from error
            yield number, Document(url, source, "", (), "", None, None, "", content_type, language, date, pairs)

    def _numbers(self, query: str, width: int) -> npt.NDArray[np.int64]:
        numbers = (number for row in self._select(query) for number in row)
        return np.fromiter(numbers, dtype=np.int64).reshape(-1, width)

    def _select(self, query: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._database.execute(query)
        except sqlite3.Error as error:
            raise corrupt(self._path, f"cannot be read ({error})") from error
