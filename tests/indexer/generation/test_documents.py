"""Documents of a generation: the database, and documents read whole."""

import gc
import json
import re
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from indexer.errors import IndexCorrupt
from indexer.filter import Filter
from indexer.generation.documents import DocumentReader, document_id
from indexer.generation.generation import Generation
from indexer.generation.manifest import DOCUMENTS, VECTORS
from indexer.publish.archive import export_documents
from indexer.publish.publish import SelfCheck
from tests.building import build_index

PAGES = 150  # more than are read at once
WORDS = " word" * 6  # so that each section is a passage


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    source, index = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("index")
    for number in range(PAGES):
        sections = "".join(f"## Part {part}\n\nText {part} of {number}.{WORDS}\n\n" for part in range(number % 3 + 1))
        front = f"---\nlang: {'en' if number % 2 else 'de'}\ndate: 2026-01-02\nteam: a\ntag: [x, y]\n---\n"
        (source / f"page{number:03}.md").write_text(f"{front}# Page {number}\n\n{sections}", encoding="utf-8")
    build_index(index, source, chunk_tokens=16, tokens=True)
    return index


@pytest.fixture
def generation(index):
    with closing(Generation.open(index)) as generation:
        yield generation


@pytest.fixture
def database(generation, tmp_path):
    return shutil.copy(generation.folder / "documents.sqlite", tmp_path / "odd name#?%20.sqlite")


def test_chunks_come_back_in_the_order_asked_for(database):
    reader = DocumentReader(database)
    database.unlink()
    assert (reader.documents, reader.chunks) == (PAGES, 2 * PAGES)
    found = reader.read(np.array([4, 0, 4], dtype=np.int64))
    assert [chunk.text[:11] for chunk in found] == ["Text 1 of 2", "Text 0 of 0", "Text 1 of 2"]
    chunk = found[0]
    assert chunk.url == f"{chunk.document_url}#part-1"
    assert (chunk.title, chunk.section, chunk.position) == ("Page 2", "Page 2 › Part 1", 1)
    assert (chunk.language, chunk.date, chunk.content_type) == ("de", "2026-01-02", "text/markdown")
    assert chunk.metadata == {"team": "a", "tag": ["x", "y"]}
    assert reader.read([]) == []
    with pytest.raises(IndexCorrupt, match=r"sqlite: has no chunk 300"):
        reader.read([300])
    reader.close()


def test_code_and_tables_are_kept_and_earlier_files_have_none(database):
    code, table = "```\n" + "x = 1\n" * 30 + "```", "\n".join(["| a | b |", "| - | - |", *["| 1 | 2 |"] * 3])
    source, index = database.parent / "source", database.parent / "index"
    source.mkdir()
    (source / "page.md").write_text(f"# Page\n\nRun it:\n\n{code}\n\n{table}\n")
    for _ in range(2):  # the second build carries them over
        (source / "other.md").write_text(f"# Other\n\nWords {_}.")
        build_index(index, source, chunk_tokens=64)
        with closing(Generation.open(index)) as generation:
            (document,) = generation.documents(id=document_id((source / "page.md").as_uri()))
            passages = document["passages"]
            assert len(passages) > 1
            kinds = [block.kind for passage in passages for block in passage["blocks"]]
            assert kinds == sorted(kinds)
            assert {*kinds} == {"code", "table"}
            rows = range(generation.manifest.counts.chunks)
            row = next(row for row in rows if generation.chunks([row])[0].text.startswith("Run it"))
            text, blocks = generation.section(row)
            expected = ["\n".join(["x = 1"] * 30), "\n".join(["a | b", *["1 | 2"] * 3])]
            assert [text[block.start : block.end] for block in blocks] == expected
    with closing(sqlite3.connect(database)) as earlier:
        earlier.execute("ALTER TABLE chunks DROP COLUMN blocks")
    with pytest.raises(IndexCorrupt, match="no such column: blocks"):
        DocumentReader(database)


def test_the_file_can_be_read_with_sqlite_alone(database):
    with closing(sqlite3.connect(database)) as found:
        assert found.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert found.execute("PRAGMA foreign_key_check").fetchall() == []
        assert found.execute("SELECT row, document FROM chunks LIMIT 4").fetchall() == [(0, 0), (1, 1), (2, 1), (3, 2)]
        assert found.execute("SELECT id, first_row, chunks FROM documents LIMIT 2").fetchall() == [(0, 0, 1), (1, 1, 2)]
        assert found.execute("SELECT count(*) FROM terms WHERE term = 'language:en'").fetchone() == (PAGES // 2,)
        pages = found.execute("SELECT DISTINCT links, noindex, outcome, reasons FROM pages").fetchall()
        assert pages == [("[]", 0, "indexed", "[]")]


def test_every_document_once_with_all_its_passages(generation):
    documents = list(generation.documents())
    assert [document["title"] for document in documents] == [f"Page {number}" for number in range(PAGES)]
    assert sum(len(document["passages"]) for document in documents) == generation.manifest.counts.chunks
    for document in documents:
        assert document["id"] == document_id(document["url"])
        assert list(generation.documents(id=document["id"])) == [document]
    for unknown in ("", "x", "0" * 32, "0" * 31, "-" + "0" * 31, "0x" + "0" * 30, "١" * 32):
        assert list(generation.documents(id=unknown)) == []
    facts = generation.facts([0, 149, 9999])
    assert {number: fact.url for number, fact in facts.items()} == {n: documents[n]["url"] for n in (0, 149)}


def test_export_as_json_lines(index, generation, tmp_path):
    assert export_documents(index, tmp_path / "documents.jsonl").id == generation.manifest.id
    lines = (tmp_path / "documents.jsonl").read_bytes().split(b"\n")[:-1]
    assert [json.loads(line) for line in lines] == list(generation.documents())


def test_its_files_are_closed_with_it(index: Path) -> None:
    """At once, as garbage may be collected hours later: a file that is open stays on the disk when it is removed."""
    Generation.open(index).close()
    gc.collect()
    gc.disable()
    try:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            generation = Generation.open(index)
            filter = Filter.parse({"content_type": "text/markdown"})
            wanted = generation.read_query("page paeg -zebra", filter=filter)
            assert len(generation.search_terms(wanted, 1, filter).rows) == 1
            assert len(generation.search_vectors(generation.vectors(np.array([3]))[0], 1, filter, wanted)[1]) == 1
            assert generation.suggest("pa", 3, filter)
            del generation, wanted
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    finally:
        gc.enable()


def read_everything(generation: Generation) -> None:
    """Read each file of a generation in all ways that a server does; damage may be refused, and nothing else fails."""
    rows, german = np.arange(generation.manifest.counts.chunks), Filter(language=("de",))
    vector = np.ones(generation.manifest.counts.dimension, np.float32)
    for read in (
        lambda: generation.read_query("paeg wrod", filter=german),
        lambda: generation.search_terms(generation.read_query('"Text 1" page'), 300, german),
        lambda: generation.search_vectors(vector, 300, german),
        lambda: (generation.suggest("pa", 9, german), generation.suggest("part 1", 9)),
        lambda: (generation.chunks(rows), generation.section(3), generation.facts([0, 1])),
        lambda: list(generation.documents()),
        lambda: (generation.vectors(rows), generation.row_facts(rows), generation.tokens.gather(rows)),
    ):
        with suppress(IndexCorrupt):
            read()


def test_files_that_are_damaged_while_they_are_open_are_refused_or_found_damaged(index: Path, tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    live = Generation.open(index)
    rows = np.arange(live.manifest.counts.chunks)
    documents, vectors = [*live.documents()], live.vectors(rows)
    for name in live.manifest.files:
        for share in (0.00001, 0.1):  # of the bytes; at least one bit
            folder = tmp_path / live.manifest.id
            shutil.copytree(live.folder, folder)
            files = SelfCheck(folder, live.manifest)
            with closing(Generation(folder)) as generation, (folder / name).open("r+b") as file:
                content = np.frombuffer(file.read(), np.uint8).copy()
                places = chance.integers(0, len(content), max(1, int(share * len(content))))
                content[places] ^= chance.integers(1, 255, len(places), np.uint8)
                file.seek(0)
                file.write(content)
                file.flush()
                read_everything(generation)
                with pytest.raises(IndexCorrupt, match=re.escape(name)):
                    files.contents()
                if name != DOCUMENTS:  # what is in other files is read as it was
                    assert [*generation.documents()] == documents
                if name != VECTORS:
                    assert (generation.vectors(rows) == vectors).all()
            with pytest.raises(IndexCorrupt, match=re.escape(name)):
                Generation(folder)
            shutil.rmtree(folder)
