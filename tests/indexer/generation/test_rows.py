"""Sets of rows, signatures of texts by which near-duplicates are known, and tokens."""

import random

import faiss
import numpy as np
import pytest

from indexer.errors import IndexCorrupt, VectorError
from indexer.generation.rows import MAX_SIGNATURE_BITS, RowSet, TokenReader, TokenWriter
from indexer.generation.writer import signature_of, word_hashes


def signature(text: str) -> int:
    return signature_of(word_hashes(text))


def test_rows_of_ranges() -> None:
    rows = RowSet.from_ranges(20, [(15, 20), (0, 3), (2, 5), (5, 6), (9, 9), (9, 10)])
    expected = [0, 1, 2, 3, 4, 5, 9, 15, 16, 17, 18, 19]
    assert rows.rows().tolist() == expected
    assert rows.rows().dtype == np.int64
    assert (rows.count, rows.total) == (12, 20)
    assert np.flatnonzero(rows.contains(np.arange(20))).tolist() == expected
    assert rows.mask.dtype == np.uint8
    assert len(rows.mask) == 3
    selector = faiss.IDSelectorBitmap(rows.mask)
    assert [row for row in range(20) if selector.is_member(row)] == expected
    assert RowSet.from_ranges(0, []).count == 0


@pytest.mark.parametrize("wrong", [(-1, 2), (0, 5), (3, 2)])
def test_a_range_must_be_one(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not between 0 and 4"):
        RowSet.from_ranges(4, [wrong])


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
    assert bits("a partial index covers rows", "rows covers index partial a") > MAX_SIGNATURE_BITS
    assert bits("one two", "two one") > MAX_SIGNATURE_BITS
    assert bits("one", "two") > MAX_SIGNATURE_BITS
    filler = "applies to a feature not available in this server "  # what is said often does not hide what differs
    assert (
        bits("alpha " + filler + "beta " + filler * 9, "gamma " + filler + "delta " + filler * 9) > MAX_SIGNATURE_BITS
    )


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
    assert np.mean(np.array(edited) <= MAX_SIGNATURE_BITS) > 0.7
    assert min(other) > MAX_SIGNATURE_BITS
    unrelated = [bits(" ".join(passage(chance, 40)), " ".join(passage(chance, 40))) for _ in range(3_000)]
    assert np.mean(unrelated) == pytest.approx(32, abs=0.5)  # as random bits differ
    assert np.std(unrelated) == pytest.approx(4, abs=0.5)


COUNTS = [3, 0, 1, 5]


def signs(count, width=48, seed=1):
    return np.random.default_rng(seed).integers(0, 256, (count, width), dtype=np.uint8)


def written(folder, *parts):
    writer = TokenWriter(folder)
    for part, counts in parts:
        writer.add(part, np.array(counts, np.int32))
    writer.finish()
    return folder


def test_tokens_come_back_in_any_order(tmp_path):
    tokens = signs(9)
    folder = written(tmp_path, (tokens[:3], COUNTS[:2]), (tokens[3:], COUNTS[2:]))
    reader = TokenReader(folder, 4)
    read, counts = reader.read(np.array([3, 1, 2]))
    assert counts.tolist() == [5, 0, 1]
    assert np.array_equal(read, np.concatenate([tokens[4:], tokens[3:4]]))
    gathered, starts, counts = reader.gather(np.array([3, 0]))
    assert np.array_equal(gathered, tokens)
    assert starts.tolist() == [4, 0]
    assert (starts.dtype, counts.dtype) == (np.int64, np.int32)  # as a kernel reads them
    # the files are NumPy's, and take a bit a dimension
    assert np.array_equal(np.load(folder / "tokens.npy"), tokens)
    assert np.load(folder / "token_offsets.npy").tolist() == [0, 3, 3, 4, 9]
    assert (folder / "tokens.npy").stat().st_size == 9 * 48 + 128


@pytest.mark.parametrize("parts", [[], [(signs(0), [0, 0])]])
def test_passages_without_tokens(tmp_path, parts):
    passages = sum(len(counts) for _, counts in parts)
    read, counts = TokenReader(written(tmp_path, *parts), passages).read(np.arange(passages))
    assert (len(read), counts.tolist()) == (0, [0] * passages)


@pytest.mark.parametrize(
    ("part", "counts"), [(signs(2), [3]), (signs(2), [1]), (signs(2, 40), [2]), (signs(2).astype(np.int16), [2])]
)
def test_what_does_not_match_is_not_written(tmp_path, part, counts):
    writer = TokenWriter(tmp_path)
    writer.add(signs(1), np.array([1], np.int32))
    with pytest.raises(VectorError, match=r"not \(\d+, 48\); check the model"):
        writer.add(part, np.array(counts, np.int32))
    writer.close()


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("tokens.npy", np.zeros((8, 48), np.uint8), "does not match tokens.npy"),
        ("tokens.npy", np.zeros((9, 48), np.int8), "is an array of the wrong type or shape"),
        ("tokens.npy", np.zeros(9, np.uint8), "is an array of the wrong type or shape"),
        ("tokens.npy", np.zeros((48, 9), np.uint8).T, "is an array of the wrong type or shape"),
        ("token_offsets.npy", np.array([0, 3, 3, 4], np.int64), "has another number of passages than the manifest"),
        ("token_offsets.npy", np.array([0, 3, 3, 4, 9], np.int32), "is an array of the wrong type or shape"),
        ("token_offsets.npy", np.array([0, 3, 2, 4, 9], np.int64), "does not match tokens.npy"),
        ("token_offsets.npy", np.array([-1, 3, 3, 4, 9], np.int64), "does not match tokens.npy"),
    ],
)
def test_files_that_are_not_as_they_were_written(tmp_path, name, array, said):
    written(tmp_path, (signs(9), COUNTS))
    np.save(tmp_path / name, array)
    with pytest.raises(IndexCorrupt, match=rf"\.npy: {said}"):
        TokenReader(tmp_path, 4)
