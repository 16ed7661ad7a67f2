"""A generation that is not as it was published is told by the name of the file."""

import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.config import BuildConfig
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
    checks = verify(generation)
    assert problems_of(checks) == []
    names = [check.name for check in checks]
    assert names[0] == "manifest"
    assert {"file documents.sqlite", "file rows.npy", "file vectors.faiss"} <= set(names)
    assert names[-2:] == ["other files", "counts"]


@pytest.mark.parametrize("name", ["documents.sqlite", "rows.npy", "vectors.faiss"])
def test_a_changed_file_is_named_and_not_opened(generation: Path, name: str) -> None:
    content = (generation / name).read_bytes()
    (generation / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    checks = verify(generation)
    assert failed(checks) == {
        f"file {name}": f"{generation / name}: differs from its checksum; rebuild the index, or roll back to an older "
        "generation"
    }
    assert checks[-1].name == "other files"


def test_files_that_do_not_belong(generation: Path) -> None:
    (generation / "documents.sqlite-wal").write_bytes(b"x")
    assert "documents.sqlite-wal: is not part" in failed(verify(generation))["other files"]


def test_counts_that_do_not_agree(generation: Path) -> None:
    database = sqlite3.connect(generation / "documents.sqlite")
    database.execute("DELETE FROM chunks WHERE row = (SELECT max(row) FROM chunks)")
    database.commit()
    database.close()
    reseal(generation)
    assert "documents.sqlite: has gaps between its chunks" in failed(verify(generation))["counts"]
