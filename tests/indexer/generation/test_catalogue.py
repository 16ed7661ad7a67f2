"""Documents of a generation, whole."""

import gzip
import io
import json

import pytest

from indexer.config import BuildConfig
from indexer.errors import ArchiveError, IndexMissing
from indexer.generation.documents import document_id
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from indexer.pipeline.progress import progress_for
from indexer.publish.archive import export_documents
from tests.dummy import DummyEmbedder

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
