"""Near-duplicates, lines that repeat under many titles, and overlaps of neighbours."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker
from indexer.errors import IndexCorrupt
from indexer.generation.generation import Generation
from indexer.generation.layout import generation_folder
from indexer.generation.likeness import (
    NEAR,
    TITLES,
    WHOLE,
    RepetitionCounter,
    distance,
    joined,
    once,
    shared,
    signature,
)
from indexer.generation.manifest import MANIFEST, REPETITION, read_manifest, record_file
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.verification import problems_of, verify
from indexer.records import Document, Section
from tests.dummy import DummyEmbedder
from tests.indexer.pipeline.incremental import Work

WORDS = [f"word{number}" for number in range(3_000)]


def passage(chance: random.Random, length: int = 120) -> list[str]:
    return chance.choices(WORDS, k=length)


def bits(a: str, b: str) -> int:
    return int(distance(np.array([signature(a)], np.uint64), np.array([signature(b)], np.uint64))[0])


def test_it_is_the_same_on_every_machine():
    assert signature("The quick brown fox jumps over the lazy dog") == 0x32DD79EDF811ED0A


def test_any_text_has_one_of_its_own():
    texts = ["", "word", "two words", "three short words", "水", "a" * 100_000, "x y " * 9_000]
    assert len({signature(text) for text in texts}) == len(texts)
    assert signature("?!") == signature("")  # neither has a word


def test_case_and_punctuation_do_not_count_and_order_does():
    assert signature("A partial index,\n covers: rows") == signature("a Partial INDEX covers rows.")
    assert bits("a partial index covers rows", "rows covers index partial a") > NEAR
    assert bits("one two", "two one") > NEAR
    assert bits("one", "two") > NEAR


def test_an_edited_copy_is_near_and_another_text_is_far():
    chance = random.Random(1)
    edited, other = [], []
    for _ in range(300):
        words = passage(chance)
        copy = list(words)
        copy[chance.randrange(len(copy))] = "edited"
        edited.append(bits(" ".join(words), " ".join(copy)))
        half = words[:60] + passage(chance, 60)
        other.append(bits(" ".join(words), " ".join(half)))
    assert np.mean(np.array(edited) <= NEAR) > 0.7
    assert min(other) > NEAR


def test_distances_of_unrelated_texts_are_those_of_random_bits():
    chance = random.Random(2)
    made = np.array([signature(" ".join(passage(chance, 40))) for _ in range(300)], dtype=np.uint64)
    apart = distance(made[:, np.newaxis], made)[np.triu_indices(300, 1)]
    assert apart.mean() == pytest.approx(32, abs=0.3)
    assert apart.std() == pytest.approx(4, abs=0.3)


def test_what_is_said_often_does_not_hide_what_differs():
    filler = "applies to a feature not available in this server "
    assert bits("alpha " + filler + "beta " + filler * 9, "gamma " + filler + "delta " + filler * 9) > NEAR


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


OVERLAP = {"chunk": {"overlap": 7}}


@pytest.mark.parametrize(
    ("before", "text", "common"),
    [
        ("one two three", "two three four", "two three"),
        ("one two three", "three", ""),  # nothing of its own
        ("the cat", "at the door", ""),  # the end of a word
        ("a cat", "cats sleep", ""),
        ("if x:\n    y = 1", "    y = 1\n    z = 2", "    y = 1"),
        ("一つ目です。二つ目です。", "二つ目です。三つ目です。", "二つ目です。"),
        ("one", "two", ""),
        ("", "two", ""),
        ("one", "", ""),
        ("aa aa aa", "aa aa b", "aa aa"),
    ],
)
def test_what_two_share(before: str, text: str, common: str) -> None:
    assert shared(before, text) == len(common)
    assert text.startswith(common)


def test_the_passage_that_is_meant_stays_whole() -> None:
    texts = ["one two", "two three four", "four five"]
    assert once(texts, OVERLAP) == ["one two", "three four", "five"]
    assert once(texts, OVERLAP, 1) == ["one", "two three four", "five"]
    assert once(texts, OVERLAP, 2) == ["one two", "three", "four five"]
    assert once(["two", "two three"], OVERLAP, 1) == ["", "two three"]
    assert once([], OVERLAP) == []
    assert once(texts, {}) == texts


@pytest.mark.parametrize(
    ("before", "text", "shown"),
    [
        ("Ages:\n\nname | age\nTom | 3", "name | age\nAnn | 4", "Ann | 4"),
        ("name | age\nin | years\nTom | 3", "name | age\nin | years\nAnn | 4", "Ann | 4"),
        ("name | age\nTom | 3", "Tom | 3\nAnn | 4", "Tom | 3\nAnn | 4"),  # a row that stands there twice
        ("name | age\nTom | 3\n\nEnd.", "name | age\nAnn | 4", "name | age\nAnn | 4"),  # another table
        ("name | age\nTom | 3", "name | age", "name | age"),
    ],
)
def test_names_of_columns_are_read_once(before: str, text: str, shown: str) -> None:
    assert once([before, text], {}) == [before, shown]
    assert once([before, text], {}, 1) == [before, text]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"    line{i} = {i}" for i in range(60)),
        " ".join(f"Sentence number {i} is here." for i in range(60)),
        " ".join(f"word{i}" for i in range(300)),
        "\n\n".join(f"Paragraph {i} says this.\n    code{i}()" for i in range(40)),
    ],
    ids=["code", "sentences", "words", "paragraphs"],
)
def test_a_text_that_was_cut_is_put_together(text: str) -> None:
    document = Document("http://t.test/d", "s", "T", (Section((), None, text),), "", None, None, "")
    texts = [chunk.text for chunk in Chunker(DummyEmbedder(), ChunkConfig(30, 7)).split(document)]
    assert len(texts) > 3
    together = joined(texts, OVERLAP)
    assert together.split() == text.split()
    assert all(line.startswith("    ") == ("(" in line or " = " in line) for line in together.split("\n") if line)
    assert joined(texts, {}) == "\n".join(texts)
