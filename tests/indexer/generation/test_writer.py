"""Signatures of texts, by which near-duplicates are known."""

import random

import numpy as np
import pytest

from indexer.generation.rows import NEAR
from indexer.generation.writer import signature

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
