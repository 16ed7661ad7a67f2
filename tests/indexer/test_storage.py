import shutil
import sqlite3
import threading
from pathlib import Path

import faiss
import numpy as np
import pytest

from indexer.documents import DocumentReader, DocumentWriter, StoredChunk
from indexer.errors import IndexCorrupt, VectorError
from indexer.records import Chunk, Document
from indexer.vectors import VectorReader, VectorWriter


def write_documents(path: Path, documents: int = 2, chunks: int = 3) -> None:
    writer = DocumentWriter(path)
    for d in range(documents):
        url = f"http://t.test/{d}"
        document = Document(url, "s", f"Title {d}", (), "hash", '"e"', None, "2026-01-01T00:00:00")
        writer.add(
            document,
            [
                Chunk(f"{d}-{c}", f"{url}#a{c}", url, document.title, "A › B", f"text {d} {c}", f"read {d} {c}", 7, c)
                for c in range(chunks)
            ],
        )
    writer.finish()
    writer.close()


def test_chunks_come_back_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    write_documents(path)
    reader = DocumentReader(path)
    assert (reader.documents, reader.chunks) == (2, 6)
    found = reader.read(np.array([4, 0, 4], dtype=np.int64))
    assert found[1] == StoredChunk("0-0", "http://t.test/0#a0", "http://t.test/0", "Title 0", "A › B", "text 0 0", 0)
    assert [chunk.id for chunk in found] == ["1-1", "0-0", "1-1"]
    assert reader.read([]) == []
    with pytest.raises(IndexCorrupt, match=r"d\.sqlite: has no chunk 6"):
        reader.read([6])
    reader.close()


def test_the_file_is_one_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "odd name#?%20.sqlite"
    write_documents(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    reader = DocumentReader(path)
    shutil.rmtree(tmp_path)
    assert reader.read([5])[0].id == "1-2"
    reader.close()


def test_the_file_can_be_read_with_sqlite_alone(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    write_documents(path)
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert database.execute("SELECT row, document, tokens FROM chunks").fetchall() == [(i, i // 3, 7) for i in range(6)]
    assert database.execute("SELECT DISTINCT etag, last_modified, content_hash FROM documents").fetchall() == [
        ('"e"', None, "hash")
    ]
    database.close()


def test_readers_from_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    write_documents(path, 20, 10)
    reader = DocumentReader(path)
    wrong: list[str] = []

    def read(start: int) -> None:
        texts = {row: reader.read([row])[0].text for row in range(start, 200, 7)}
        wrong.extend(f"row {row}" for row, text in texts.items() if text != f"text {row // 10} {row % 10}")

    threads = [threading.Thread(target=read, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader.close()
    assert wrong == []


def test_other_databases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    sqlite3.connect(path).close()
    with pytest.raises(IndexCorrupt, match="is not a readable database"):
        DocumentReader(path)
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(IndexCorrupt, match="is not a readable database"):
        DocumentReader(path)


def unit(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def stored(path: Path, vectors: np.ndarray) -> VectorReader:
    writer = VectorWriter(vectors.shape[1])
    for start in range(0, len(vectors), 7):
        writer.add(vectors[start : start + 7])
    assert writer.count == len(vectors)
    writer.write(path)
    return VectorReader(path)


def test_search_gives_the_largest_inner_products(tmp_path: Path) -> None:
    vectors = unit(200)
    reader = stored(tmp_path / "v", vectors)
    (tmp_path / "v").unlink()
    scores, rows = reader.search(vectors[17], 5)
    exact = vectors @ vectors[17]
    assert rows.tolist() == np.argsort(-exact)[:5].tolist()
    assert rows[0] == 17
    assert np.allclose(scores, np.sort(exact)[::-1][:5], atol=2e-3)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int64)


def test_unnormalised_vectors_are_compared_by_inner_product(tmp_path: Path) -> None:
    reader = stored(tmp_path / "v", np.array([[1, 0], [3, 0], [0, 5]], dtype=np.float32))
    scores, rows = reader.search(np.array([1, 0], dtype=np.float32), 2)
    assert (rows.tolist(), scores.tolist()) == ([1, 0], [3.0, 1.0])


def test_no_more_hits_than_vectors(tmp_path: Path) -> None:
    reader = stored(tmp_path / "v", unit(3))
    scores, rows = reader.search(unit(1)[0], 100)
    assert len(scores) == len(rows) == 3


def test_one_query_needs_one_thread(tmp_path: Path) -> None:
    reader = stored(tmp_path / "v", unit(3))
    seen: list[int] = []

    def search() -> None:
        reader.search(unit(1)[0], 1)
        seen.append(faiss.omp_get_max_threads())

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert seen == [1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e6])
def test_vectors_that_cannot_be_stored_are_refused(value: float) -> None:
    vectors = unit(4)
    vectors[2, 3] = value
    writer = VectorWriter(16)
    writer.add(unit(10))
    with pytest.raises(VectorError, match="in vector 12;"):
        writer.add(vectors)
    assert writer.count == 10


def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"shape \(2, 8\), not \(n, 16\)"):
        VectorWriter(16).add(unit(2, 8))
    reader = stored(tmp_path / "v", unit(3))
    with pytest.raises(VectorError, match=r"shape \(8,\)"):
        reader.search(unit(1, 8)[0], 1)
    with pytest.raises(VectorError, match="NaN"):
        reader.search(np.full(16, np.nan, dtype=np.float32), 1)


def test_other_indexes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "v"
    faiss.write_index(faiss.IndexFlatL2(4), str(path))
    with pytest.raises(IndexCorrupt, match="of another kind"):
        VectorReader(path)
    path.write_bytes(b"garbage")
    with pytest.raises(IndexCorrupt, match="not a readable vector index"):
        VectorReader(path)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot write"):
        VectorWriter(4).write(tmp_path / "no" / "such" / "folder")
