"""A small index of every schema that was ever published: it is read, or refused with what to do.

`python -m tests.indexer.generation.test_schemas` writes the one of this program.
"""

import base64
import lzma
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from indexer.errors import ArchiveError
from indexer.generation.generation import Generation
from indexer.generation.manifest import ANALYSIS, RESTRICTED_VERSION, collection_dir, current_id, generation_folder
from indexer.generation.previous import scan
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.publish import problems_of, verify
from rag.query.request import MODES, Filter, SearchRequest
from rag.query.retriever import Retriever
from tests.building import build_index
from tests.dummy import DummyEmbedder

ARCHIVES = Path(__file__).with_name("schemas")
CURRENT = f"schema-{RESTRICTED_VERSION}-analysis-{ANALYSIS}.tar.xz.base64"
PAGES = {
    "cats.md": "---\nlanguage: en\ndate: 2026-01-31\nteam: core\n---\n# Cats\n\n## Food\n\nCats eat fish.\n",
    "hunde.md": "---\nlanguage: de\naccess: {groups: [staff]}\n---\n# Hunde\n\nHunde bellen.\n",
    "code.md": "# Code\n\n```py\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
}


def write(path: Path) -> None:
    """Write an index of the pages as a packed archive."""
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        folder = Path(name)
        for page, text in PAGES.items():
            (folder / page).write_text(text, encoding="utf-8")
        build_index(folder / "index", name, tokens=True)
        export_archive(folder / "index", folder / "a.tar")
        path.write_bytes(base64.encodebytes(lzma.compress((folder / "a.tar").read_bytes(), preset=9)))


def test_the_schema_of_this_program_is_kept() -> None:
    assert (ARCHIVES / CURRENT).is_file(), "the schema has changed: run python -m tests.indexer.generation.test_schemas"
    assert all(path.stat().st_size < 50_000 for path in ARCHIVES.iterdir())


@pytest.mark.parametrize("name", sorted(path.name for path in ARCHIVES.iterdir()))
def test_an_index_of_a_schema(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(lzma.decompress(base64.b64decode((ARCHIVES / name).read_bytes())))
    index, refusal = tmp_path / "index", ""
    try:
        import_archive(index, tmp_path / "a.tar", keep_generations=2)
    except ArchiveError as error:
        refusal = str(error)
    if refusal:
        assert name != CURRENT
        assert "this program reads" in refusal
        return
    folder = generation_folder(index, current_id(index))
    assert problems_of(verify(folder)) == []
    assert [each.document.link_texts for each in scan(index, folder.name)] == [()] * 3  # the file has no such table
    with closing(Generation.open(index)) as generation:
        titles = {document["title"] for document in generation.documents(Filter(readers=frozenset()))}
        assert titles == {"Cats", "Code"}
        retriever = Retriever(generation, DummyEmbedder())
        for mode in MODES:
            hit = retriever.answer_query(SearchRequest("cats eat fish", mode=mode)).hits[0]
            assert (hit.title, hit.date, hit.metadata) == ("Cats", "2026-01-31", {"team": "core"})
    import_archive(index, tmp_path / "a.tar", collection="copy", keep_generations=2)
    assert current_id(collection_dir(index, "copy")) == folder.name


if __name__ == "__main__":
    sys.exit(write(ARCHIVES / CURRENT))
