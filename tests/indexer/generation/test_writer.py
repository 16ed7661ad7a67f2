"""Near-duplicates, lines that repeat under many titles, and rows of tables that stand twice."""

import random
from pathlib import Path

import numpy as np
import pytest

from indexer.errors import IndexCorrupt
from indexer.generation.documents import once
from indexer.generation.generation import Generation
from indexer.generation.manifest import MANIFEST, REPETITION, read_manifest, record_file
from indexer.generation.rows import NEAR, WHOLE
from indexer.generation.writer import TITLES, RepetitionCounter, signature
from tests.indexer.pipeline.incremental import Work

WORDS = [f"word{number}" for number in range(3_000)]


def passage(chance: random.Random, length: int = 120) -> list[str]:
    return chance.choices(WORDS, k=length)


def bits(a: str, b: str) -> int:
    return (signature(a) ^ signature(b)).bit_count()


def test_a_signature_is_the_same_on_every_machine_and_any_text_has_one_of_its_own():
    assert signature("The quick brown fox jumps over the lazy dog") == 0x32DD79EDF811ED0A
    texts = ["", "word", "two words", "three short words", "水", "a" * 100_000, "x y " * 9_000]
    assert len({signature(text) for text in texts}) == len(texts)
    assert signature("?!") == signature("")  # neither has a word


def test_case_and_punctuation_do_not_count_and_order_does():
    assert signature("A partial index,\n covers: rows") == signature("a Partial INDEX covers rows.")
    assert bits("a partial index covers rows", "rows covers index partial a") > NEAR
    assert bits("one two", "two one") > NEAR
    assert bits("one", "two") > NEAR
    filler = "applies to a feature not available in this server "  # what is said often does not hide what differs
    assert bits("alpha " + filler + "beta " + filler * 9, "gamma " + filler + "delta " + filler * 9) > NEAR


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
    unrelated = [bits(" ".join(passage(chance, 40)), " ".join(passage(chance, 40))) for _ in range(3_000)]
    assert np.mean(unrelated) == pytest.approx(32, abs=0.5)  # as random bits differ
    assert np.std(unrelated) == pytest.approx(4, abs=0.5)


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
    assert shares_of(*[("Partial indexes", [COPY]) for _ in range(9)]) == [0.0] * 9, "versions of one page"
    assert shares_of(("Types", [COPY] * 9)) == [0.0] * 9


def test_white_space_and_case_do_not_count() -> None:
    documents = [(str(number), [" " * number + COPY.upper() + "\n" * number]) for number in range(TITLES)]
    assert shares_of(*documents, ("", ["", "\n \n"])) == [1.0] * TITLES + [0.0, 0.0]
    assert shares_of() == []
    documents = [(f"Type {number}", [COPY, f"A\nB {number}\nC", ""]) for number in range(TITLES)]
    assert shares_of(*documents) == [1.0, 0.4, 0.0] * TITLES


def repeating(generation: Generation) -> list[str]:
    rows = np.flatnonzero(generation.row_facts(np.arange(generation.manifest.counts.chunks)).repeated)
    return sorted(chunk.title for chunk in generation.chunks(rows))


def test_what_is_taken_over_counts_and_a_file_of_another_kind_is_refused(work: Work, docs: Path) -> None:
    for number in range(TITLES - 1):
        (docs / f"type{number}.md").write_text(f"# Type {number}\n\n{COPY}\n", encoding="utf-8")
    work.build(str(docs))
    assert repeating(Generation.open(work.index)) == []
    (docs / "last.md").write_text(f"# Type {TITLES - 1}\n\n{COPY}\n", encoding="utf-8")
    assert work.build(str(docs)).carried >= TITLES - 1
    generation = Generation.open(work.index)
    assert repeating(generation) == [f"Type {number}" for number in range(TITLES)]
    folder, manifest = generation.folder, generation.manifest
    for shares in (np.zeros(2, np.uint8), np.zeros(9, np.int64)):
        np.save(folder / REPETITION, shares)
        manifest.files[REPETITION] = record_file(folder / REPETITION)
        (folder / MANIFEST).write_bytes(manifest.to_bytes())
        assert read_manifest(folder) == manifest
        with pytest.raises(IndexCorrupt, match=REPETITION):
            Generation.open(work.index)


@pytest.mark.parametrize(
    ("before", "text", "shown"),
    [
        ("Ages:\n\nname | age\nTom | 3", "name | age\nAnn | 4", "Ann | 4"),
        ("name | age\nin | years\nTom | 3", "name | age\nin | years\nAnn | 4", "Ann | 4"),
        ("name | age\nTom | 3", "Tom | 3\nAnn | 4", "Tom | 3\nAnn | 4"),  # a row that stands there twice
        ("name | age\nTom | 3\n\nEnd.", "name | age\nAnn | 4", "name | age\nAnn | 4"),  # another table
        ("name | age\nTom | 3", "name | age", "name | age"),
        ("one two", "two three", "two three"),
        ("", "", ""),
    ],
)
def test_names_of_columns_are_read_once(before: str, text: str, shown: str) -> None:
    assert once([before, text]) == [before, shown]
    assert once([before, text], 1) == [before, text]
