"""Documents of a generation: the database, and documents read whole."""

import gc
import gzip
import io
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from indexer.config import BuildConfig
from indexer.errors import ArchiveError, IndexCorrupt, IndexMissing
from indexer.filter import Filter, terms_of
from indexer.generation.documents import DocumentReader, DocumentWriter, StoredChunk, document_id
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import progress_for
from indexer.publish.archive import export_documents
from indexer.records import Chunk, Document, PageRecord
from tests.dummy import DummyEmbedder


def make_chunk(document: Document, number: int, position: int) -> Chunk:
    return Chunk(
        id=f"{number}-{position}",
        url=f"{document.url}#a{position}",
        document_url=document.url,
        title=document.title,
        section="A › B",
        text=f"text {number} {position}",
        embedded_text=f"read {number} {position}",
        content_hash=f"hash {number} {position}",
        tokens=7,
        position=position,
    )


def write_documents(path: Path, documents: int = 2, chunks: int = 3) -> None:
    writer = DocumentWriter(path)
    for d in range(documents):
        url = f"http://t.test/{d}"
        document = Document(
            url=url,
            source="s",
            title=f"Title {d}",
            sections=(),
            content_hash="hash",
            etag='"e"',
            last_modified=None,
            fetched_at="2026-01-01T00:00:00",
            language="en" if d % 2 else None,
            date=f"2026-01-{d + 1:02}",
            metadata={"team": ("a",), "tag": ("x", "y")},
        )
        writer.add(document, [make_chunk(document, d, c) for c in range(chunks)], terms_of(document))
        writer.remember(
            PageRecord(url, "s", f"{url}?", '"e"', None, "hash", (f"{url}/a", f"{url}/b"), False, "indexed")
        )
    writer.finish()
    writer.close()


def test_chunks_come_back_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    write_documents(path)
    reader = DocumentReader(path)
    path.unlink()
    assert (reader.documents, reader.chunks) == (2, 6)
    found = reader.read(np.array([4, 0, 4], dtype=np.int64))
    assert found[1] == StoredChunk(
        id="0-0",
        url="http://t.test/0#a0",
        document_url="http://t.test/0",
        title="Title 0",
        section="A › B",
        text="text 0 0",
        position=0,
        language=None,
        date="2026-01-01",
        content_type="text/html",
        metadata={"team": "a", "tag": ["x", "y"]},
    )
    assert [chunk.id for chunk in found] == ["1-1", "0-0", "1-1"]
    assert reader.read([]) == []
    with pytest.raises(IndexCorrupt, match=r"d\.sqlite: has no chunk 6"):
        reader.read([6])
    reader.close()


def test_the_file_can_be_read_with_sqlite_alone(tmp_path: Path) -> None:
    path = tmp_path / "odd name#?%20.sqlite"
    write_documents(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert database.execute("SELECT row, document, tokens FROM chunks").fetchall() == [(i, i // 3, 7) for i in range(6)]
    assert database.execute("SELECT id, first_row, chunks FROM documents").fetchall() == [(0, 0, 3), (1, 3, 3)]
    assert database.execute("SELECT document FROM terms WHERE term = 'language:en'").fetchall() == [(1,)]
    assert database.execute("SELECT requested, links, noindex FROM pages WHERE url = 'http://t.test/0'").fetchall() == [
        ("http://t.test/0?", '["http://t.test/0/a", "http://t.test/0/b"]', 0)
    ]
    assert database.execute("SELECT DISTINCT etag, last_modified, content_hash FROM documents").fetchall() == [
        ('"e"', None, "hash")
    ]
    database.close()


def test_other_databases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    sqlite3.connect(path).close()
    with pytest.raises(IndexCorrupt, match="cannot be read"):
        DocumentReader(path)
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(IndexCorrupt, match="cannot be read"):
        DocumentReader(path)


PAGES = 150  # more than are read at once


@pytest.fixture
def index(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(PAGES):
        sections = "".join(f"## Part {part}\n\nText {part} of page {number}.\n\n" for part in range(number % 3 + 1))
        (source / f"page{number:03}.md").write_text(f"# Page {number}\n\n{sections}", encoding="utf-8")
    index = tmp_path / "index"
    build([str(source)], index, DummyEmbedder(), BuildConfig(), progress=progress_for(io.StringIO(), quiet=True))
    return index


@pytest.fixture
def generation(index):
    generation = Generation.open(index)
    yield generation
    generation.close()


def test_every_document_once_with_all_its_passages(generation):
    documents = list(generation.documents())
    assert [document["title"] for document in documents] == [f"Page {number}" for number in range(PAGES)]
    assert sum(len(document["passages"]) for document in documents) == generation.manifest.counts.chunks
    for document in documents:
        assert document["id"] == document_id(document["url"])
        assert list(generation.documents(id=document["id"])) == [document]
    json.dumps(documents)


@pytest.mark.parametrize("id", ["", "x", "0" * 32, "0" * 31, "-" + "0" * 31, "0x" + "0" * 30, "١" * 32])
def test_unknown_id(generation, id):
    assert list(generation.documents(id=id)) == []


def test_facts(generation):
    facts = generation.facts([0, 149, 9999])
    found = {number: fact.url.rpartition("/")[2] for number, fact in facts.items()}
    assert found == {0: "page000.md", 149: "page149.md"}


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.gz"])
def test_export_as_json_lines(index, generation, tmp_path, name):
    file = tmp_path / name
    assert export_documents(index, file).id == generation.manifest.id
    raw = gzip.decompress(file.read_bytes()) if name.endswith(".gz") else file.read_bytes()
    assert [json.loads(line) for line in raw.split(b"\n")[:-1]] == list(generation.documents())


def test_an_export_that_cannot_be_written(index, tmp_path):
    with pytest.raises(ArchiveError):
        export_documents(index, tmp_path)
    with pytest.raises(IndexMissing):
        export_documents(index, tmp_path / "x", "20200101T000000-000000")
    assert not (tmp_path / "x").exists()


def test_its_files_are_closed_with_it(index: Path) -> None:
    """At once, as garbage may be collected hours later: a file that is open stays on the disk when it is removed."""
    Generation.open(index).close()
    gc.collect()
    gc.disable()
    try:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            generation = Generation.open(index)
            only = Filter.parse({"content_type": "text/markdown"})
            wanted = generation.read_query("page paeg -zebra", only=only)
            assert len(generation.search_terms(wanted, 1, only).rows) == 1
            assert len(generation.search_vectors(generation.vectors(np.array([3]))[0], 1, only, wanted)[1]) == 1
            assert generation.suggest("pa", 3, only)
            del generation, wanted
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    finally:
        gc.enable()
