import sys
from pathlib import Path

import pytest

from indexer.config import BuildConfig
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport, Progress
from indexer.read import parsing
from tests.dummy import DummyEmbedder


def test_the_summary_counts_notes_and_later_builds_still_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(page: parsing.Page, *args: object) -> parsing.Document:
        document = parse(page, *args)  # type: ignore[arg-type]
        return parsing.replace(document, notes=("an encoding was guessed",)) if "a.txt" in page.url else document

    def run() -> BuildReport:
        return build([str(docs)], tmp_path / "index", DummyEmbedder(), BuildConfig(), progress=quiet)

    parse, quiet, docs = parsing.parse, Progress(sys.stderr, "quiet"), tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Cats purr.")
    (docs / "b.txt").write_text("Dogs bark.")
    monkeypatch.setattr("indexer.pipeline.build.parse", noting)
    expected = [{"reason": "an encoding was guessed", "count": 1, "examples": [(docs / "a.txt").as_uri()]}]
    assert run().as_dict()["notes"] == expected
    (docs / "c.txt").write_text("Owls hoot.")
    again = run()
    assert again.as_dict()["notes"] == expected
    assert again.unchanged == 2
    assert f"noted        1\n         1   an encoding was guessed, such as {(docs / 'a.txt').as_uri()}" in again.table()
