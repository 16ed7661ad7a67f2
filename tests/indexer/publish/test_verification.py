"""Every way in which a generation can be wrong though its files are, or seem, as they were published."""

import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.config import BuildConfig, ChunkConfig
from indexer.generation.dense.vectors import VectorWriter
from indexer.generation.manifest import MANIFEST, read_manifest, record_file
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.publish.verification import Check, problems_of, verify
from tests.dummy import DummyEmbedder


@pytest.fixture
def generation(tmp_path: Path, docs: Path) -> Path:
    quiet = Progress(sys.stderr, "quiet")
    report = build([str(docs)], tmp_path / "index", DummyEmbedder(), BuildConfig(), progress=quiet)
    return tmp_path / "index" / "generations" / report.generation


def failed(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.what for check in checks if not check.ok}


def reseal(generation: Path) -> None:
    """Make the manifest agree with the files, as if they had been published so."""
    manifest = read_manifest(generation)
    files = {name: record_file(generation / name) for name in manifest.files}
    (generation / MANIFEST).write_bytes(replace(manifest, files=files).to_bytes())


def test_a_whole_generation(generation: Path) -> None:
    embedder = DummyEmbedder()
    checks = verify(generation, embedder)
    assert problems_of(checks) == []
    names = [check.name for check in checks]
    assert names[0] == "manifest"
    assert {"file documents.sqlite", "file rows.npy", "file vectors.faiss"} <= set(names)
    assert names[-7:] == ["database", "counts", "documents", "terms", "signatures", "repetition", "embedding"]
    assert 0 < embedder.encoded <= 32


def test_without_an_embedder_nothing_is_embedded(generation: Path) -> None:
    assert verify(generation)[-1].name == "repetition"


def test_other_chunk_sizes_do_not_matter(tmp_path: Path, docs: Path) -> None:
    """Title and headings stand in front of what is embedded, in one way or the other, whatever the size."""
    (docs / "terms.html").write_text(
        "<title>2. Terms</title><h1>2. Terms</h1><dl><dt>work_mem</dt><dd>"
        + "work_mem sets the memory of one sort. " * 40
        + "</dd></dl><h2>Notes › more</h2><p>A heading with the separator in it.</p>"
    )
    embedder, quiet = DummyEmbedder(max_length=64), Progress(sys.stderr, "quiet")
    config = BuildConfig(chunk=ChunkConfig(tokens=30, overlap=10))
    report = build([str(docs)], tmp_path / "i", embedder, config, progress=quiet)
    assert problems_of(verify(tmp_path / "i" / "generations" / report.generation, embedder)) == []


@pytest.mark.parametrize("name", ["documents.sqlite", "rows.npy", "vectors.faiss"])
def test_a_changed_file_is_named_and_not_opened(generation: Path, name: str) -> None:
    content = (generation / name).read_bytes()
    (generation / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    checks = verify(generation, DummyEmbedder())
    assert failed(checks) == {
        f"file {name}": f"{generation / name}: differs from its checksum; rebuild the index, or roll back to an older "
        "generation"
    }
    assert checks[-1].name == "other files"


def test_a_broken_manifest_ends_it(generation: Path) -> None:
    (generation / MANIFEST).write_text("{}")
    [check] = verify(generation, DummyEmbedder())
    assert not check.ok
    assert str(generation / MANIFEST) in check.what


def test_files_that_do_not_belong(generation: Path) -> None:
    (generation / "documents.sqlite-wal").write_bytes(b"x")
    assert "documents.sqlite-wal: is not part" in failed(verify(generation))["other files"]


@pytest.mark.parametrize(
    ("statement", "name", "told"),
    [
        ("UPDATE chunks SET document = 77 WHERE row = 1", "database", "refers from chunks row 1 to a missing row"),
        ("DELETE FROM chunks WHERE row = (SELECT max(row) FROM chunks)", "opening", "gaps"),
        ("UPDATE documents SET first_row = first_row + 1 WHERE id = 1", "documents", "leave gaps or overlap"),
        ("UPDATE documents SET first_row = chunks - first_row", "documents", "leave gaps or overlap"),
        ("UPDATE chunks SET document = 0 WHERE row > 2", "documents", "chunk 3 under the wrong document"),
        ("UPDATE chunks SET position = 5 WHERE row = 0", "documents", "chunk 0 under the wrong document or position"),
        ("DELETE FROM terms WHERE document = 1 AND term LIKE 'content_type%'", "terms", "has other filter terms for"),
        ("INSERT INTO terms VALUES ('language:xx', 2)", "terms", "has other filter terms for"),
        ("UPDATE documents SET metadata = '[]' WHERE id = 0", "terms", "is not a JSON object of texts"),
        ("UPDATE documents SET content_type = 'text/x' WHERE id = 0", "terms", "has other filter terms for"),
        ("UPDATE chunks SET text = 'changed' WHERE row = 0", "signatures", "another signature for chunk 0"),
        ("UPDATE chunks SET content_hash = 'x'", "embedding", "content_hash"),
    ],
)
def test_databases_that_do_not_agree(generation: Path, statement: str, name: str, told: str) -> None:
    database = sqlite3.connect(generation / "documents.sqlite")
    database.execute(statement)
    database.commit()
    database.close()
    reseal(generation)
    problems = failed(verify(generation, DummyEmbedder()))
    if name == "opening":  # counts are compared where the file is opened, or afterwards
        name = next(iter(problems))
        told = "documents.sqlite"
    assert told in problems[name]
    assert str(generation) in problems[name]


def other_document(rows: np.ndarray) -> np.ndarray:
    rows["document"][-1] = 0
    return rows


def other_signature(rows: np.ndarray) -> np.ndarray:
    rows["signature"][0] ^= 1
    return rows


@pytest.mark.parametrize(
    ("change", "name"),
    [(lambda rows: rows[:-1], "counts"), (other_document, "documents"), (other_signature, "signatures")],
)
def test_rows_that_do_not_agree(generation: Path, change: Callable[[np.ndarray], np.ndarray], name: str) -> None:
    np.save(generation / "rows.npy", change(np.load(generation / "rows.npy")))
    reseal(generation)
    assert str(generation / "rows.npy") in failed(verify(generation))[name]


def test_vectors_of_other_texts(generation: Path) -> None:
    chunks = read_manifest(generation).counts.chunks
    writer = VectorWriter(64, "flat")
    writer.add(DummyEmbedder().encode([f"other text {number}" for number in range(chunks)]))
    writer.write(generation / "vectors.faiss")
    reseal(generation)
    assert "vectors.faiss: has another vector for chunk" in failed(verify(generation, DummyEmbedder()))["embedding"]
    assert problems_of(verify(generation)) == []


def test_too_few_vectors(generation: Path) -> None:
    writer = VectorWriter(64, "flat")
    writer.add(DummyEmbedder().encode(["one"]))
    writer.write(generation / "vectors.faiss")
    reseal(generation)
    assert "holds 1 vectors instead of" in failed(verify(generation))["counts"]


def test_another_embedder_is_named_by_field(generation: Path) -> None:
    other = DummyEmbedder(name="other")
    assert "(model)" in failed(verify(generation, other))["embedding"]
    assert other.encoded == 0
