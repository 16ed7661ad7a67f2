import random

import numpy as np
import pytest

from indexer.generation.likeness import NEAR, distance, signature

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
