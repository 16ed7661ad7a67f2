import sys
from pathlib import Path

import pytest

from indexer.config import BuildConfig
from indexer.errors import IndexCorrupt, IndexMissing
from indexer.generation.current import current_id
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.serving.source_facts import read_sources
from tests.dummy import DummyEmbedder


def make(tmp_path: Path) -> tuple[Path, Path, Path]:
    folder, file, index = tmp_path / "notes", tmp_path / "one.md", tmp_path / "index"
    folder.mkdir()
    (folder / "a.md").write_text("---\ndate: 2026-03-01\n---\n\n# A\n\nAbout cats.\n")
    (folder / "b.md").write_text("---\ndate: 2026-05-04\n---\n\n# B\n\nAbout dogs.\n")
    file.write_text("---\ndate: 2020-01-01\n---\n\n# One\n\nAbout birds.\n")
    quiet = Progress(sys.stderr, "quiet")
    build([str(folder), str(file)], index, DummyEmbedder(), BuildConfig(), progress=quiet)
    return folder, file, index


def test_sources_and_what_they_gave(tmp_path: Path) -> None:
    folder, file, index = make(tmp_path)
    generation, (first, second) = read_sources(index)
    assert generation == current_id(index)
    assert (first.source, first.kind, first.documents, first.chunks) == (str(folder), "folder", 2, 2)
    assert (second.source, second.kind, second.documents, second.modified) == (str(file), "file", 1, "2020-01-01")
    assert first.modified == "2026-05-04"
    assert first.fetched_at is not None
    assert first.fetched_at.startswith("20")
    file.unlink()
    assert [source.kind for source in read_sources(index)[1]] == ["folder", "missing"]


def test_no_index_and_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(IndexMissing):
        read_sources(tmp_path / "none")
    index = make(tmp_path)[2]
    (index / "generations" / current_id(index) / "documents.sqlite").write_bytes(b"x" * 100)
    with pytest.raises(IndexCorrupt, match=r"documents\.sqlite"):
        read_sources(index)
