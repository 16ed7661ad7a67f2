"""What of a passage repeats, and what becomes of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.errors import IndexCorrupt
from indexer.generation.generation import Generation
from indexer.generation.layout import generation_folder
from indexer.generation.likeness import TITLES, WHOLE, RepetitionCounter
from indexer.generation.manifest import MANIFEST, REPETITION, read_manifest, record_file
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.verification import problems_of, verify
from tests.indexer.pipeline.incremental import Work

COPY = "Returns a copy of the value."


def shares_of(*documents: tuple[str, list[str]]) -> list[float]:
    counter = RepetitionCounter()
    for title, texts in documents:
        counter.add(title, texts)
    return [round(share / WHOLE, 2) for share in counter.shares().tolist()]


def test_lines_that_many_titles_have_repeat() -> None:
    documents = [(f"Type {number}", [f"{COPY}\n\nOf type {number}."]) for number in range(TITLES)]
    assert shares_of(*documents) == [round(28 / 38, 2)] * TITLES
    assert shares_of(*documents[1:]) == [0.0] * (TITLES - 1), "one less is too few"
    assert shares_of(*documents, ("Prose", ["Of its own."])) == [0.74] * TITLES + [0.0]


def test_versions_and_places_of_one_page_count_once() -> None:
    assert shares_of(*[("Partial indexes", [COPY]) for _ in range(9)]) == [0.0] * 9
    assert shares_of(("Types", [COPY] * 9)) == [0.0] * 9


def test_white_space_and_case_do_not_count() -> None:
    documents = [(str(number), [" " * number + COPY.upper() + "\n" * number]) for number in range(TITLES)]
    assert shares_of(*documents, ("", ["", "\n \n"])) == [1.0] * TITLES + [0.0, 0.0]
    assert shares_of() == []


def test_blocks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.generation.likeness._BLOCK", 3)
    documents = [(f"Type {number}", [COPY, f"A\nB {number}\nC", ""]) for number in range(TITLES)]
    assert shares_of(*documents) == [1.0, 0.4, 0.0] * TITLES


@pytest.fixture
def docs(work: Work, docs: Path) -> Path:
    for number in range(TITLES):
        (docs / f"type{number}.md").write_text(f"# Type {number}\n\n{COPY}\n", encoding="utf-8")
    return docs


def repeating(generation: Generation) -> list[str]:
    rows = np.flatnonzero(generation.row_facts(np.arange(generation.manifest.counts.chunks)).repeated)
    return sorted(chunk.title for chunk in generation.chunks(rows))


def test_what_is_taken_over_counts(work: Work, docs: Path) -> None:
    last = docs / f"type{TITLES - 1}.md"
    text = last.read_text()
    last.write_text(f"# Type {TITLES - 1}\n\nNothing is copied.\n")
    work.build(str(docs))
    assert repeating(Generation.open(work.index)) == []
    last.write_text(text)
    assert work.build(str(docs)).carried >= TITLES - 1
    assert repeating(Generation.open(work.index)) == [f"Type {number}" for number in range(TITLES)]


def test_a_generation_of_an_older_program_is_opened(work: Work, docs: Path) -> None:
    work.build(str(docs))
    folder = made_older(work.index)
    assert repeating(Generation.open(work.index)) == []
    assert problems_of(verify(folder)) == []
    (docs / "new.md").write_text("# New\n\nAnother.\n")
    work.build(str(docs))
    assert len(repeating(Generation.open(work.index))) == TITLES


def test_a_generation_of_an_older_program_goes_through_an_archive(work: Work, docs: Path, tmp_path: Path) -> None:
    work.build(str(docs))
    folder = made_older(work.index)
    export_archive(work.index, tmp_path / "old.tar")
    import_archive(tmp_path / "other", tmp_path / "old.tar", keep_generations=1)
    imported = generation_folder(tmp_path / "other", folder.name)
    assert sorted(path.name for path in imported.iterdir()) == sorted(path.name for path in folder.iterdir())
    assert problems_of(verify(imported)) == []
    assert repeating(Generation.open(tmp_path / "other")) == []


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        (np.zeros(2, np.uint8), "its shares do not match the manifest"),
        (np.zeros(9, np.int64), "its shares do not match the manifest"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    work: Work, docs: Path, shares: np.ndarray[tuple[int], np.dtype[np.uint8]], told: str
) -> None:
    work.build(str(docs))
    folder = generation_folder(work.index, Generation.open(work.index).manifest.id)
    rewrite(folder, shares)
    with pytest.raises(IndexCorrupt, match=f"{REPETITION}: {told}"):
        Generation.open(work.index)


def made_older(index: Path) -> Path:
    """Make the live generation one of a program that did not know of shares; return its folder."""
    folder = generation_folder(index, Generation.open(index).manifest.id)
    manifest = read_manifest(folder)
    files = {name: record for name, record in manifest.files.items() if name != REPETITION}
    (folder / MANIFEST).write_bytes(replace(manifest, files=files).to_bytes())
    (folder / REPETITION).unlink()
    return folder


def rewrite(folder: Path, shares: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
    """Another file of shares, as if it had been published."""
    np.save(folder / REPETITION, shares)
    manifest = read_manifest(folder)
    files = {**manifest.files, REPETITION: record_file(folder / REPETITION)}
    (folder / MANIFEST).write_bytes(replace(manifest, files=files).to_bytes())
