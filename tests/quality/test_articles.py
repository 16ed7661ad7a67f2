"""Single pages are read without their furniture: the bar of docs/evaluation.md, on both halves."""

from statistics import fmean

import pytest

from tests.quality.articles import HALVES, f1, measure


@pytest.mark.parametrize("half", HALVES)
def test_articles_are_read_without_their_furniture(half: str) -> None:
    found = measure(half)
    assert len(found) == 30
    assert fmean(found.values()) >= 0.93
    assert min(found.values()) >= 0.7


def test_words_are_measured() -> None:
    assert f1("one two", "one two", "") == 1
    assert f1("one two more", "one two", "") == pytest.approx(4 / 5)
    assert f1("Title one two", "one two", "Title") == 1
