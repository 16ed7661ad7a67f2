"""The ranking functions, on lists that a test chooses."""

from datetime import date, timedelta

import numpy as np
import pytest

from indexer.generation.documents import DocumentFacts
from indexer.generation.rows import RowFacts, TermHits
from rag.errors import SettingsError
from rag.query.ranking import (
    Ranking,
    choose,
    collapse,
    extend,
    fuse,
    lower_boilerplate,
    rerank,
    trust_in_terms,
)
from rag.query.rules import Boosts


def floats(*values):
    return np.array(values, dtype=np.float32)


def found(pairs):
    return floats(*(score for score, _ in pairs)), np.array([row for _, row in pairs], np.int64)


def words(pairs, idf_sum=0.0):
    return TermHits(*found(pairs), idf_sum)


def facts(documents, signatures):
    count = len(documents)
    return RowFacts(np.array(documents, np.int64), np.array(signatures, np.uint64), np.zeros(count, np.uint8))


def no_vectors(rows):
    raise AssertionError(f"vectors of {rows} were asked for")


def maxsim_of(scores):
    """Return a function that gives the MaxSim of rows."""
    return lambda rows: floats(*(scores[row] for row in rows.tolist()))


def by_row(ranking, column):
    return dict(zip(ranking.rows.tolist(), ranking.columns[column].tolist(), strict=True))


def test_both_searches_are_scaled_and_added():
    asked = []

    def cosines(rows):
        asked.append(rows.tolist())
        return np.full(len(rows), 0.5, np.float32)

    ranking = fuse(found([(0.9, 7), (0.4, 2)]), words([(12.0, 3), (6.0, 7)]), cosines)
    assert asked == [[3]], "only rows that the dense search did not find"
    assert ranking.rows.tolist() == [7, 3, 2]
    assert by_row(ranking, "dense") == pytest.approx({7: 0.9, 3: 0.5, 2: 0.4})
    assert by_row(ranking, "lexical") == {7: 6.0, 3: 12.0, 2: 0.0}
    assert ranking.scores.tolist() == pytest.approx([(1 + 0.5) / 2, (0.2 + 1) / 2, 0])


@pytest.mark.parametrize(
    ("best", "idf_sum", "weight"), [(3, 12, 0.5), (6, 12, 1), (30, 12, 1), (0, 12, 0), (3, 0, 1), (None, 12, 1)]
)
def test_words_count_less_where_the_best_hit_has_less_than_half_of_the_query(best, idf_sum, weight):
    assert trust_in_terms(words([] if best is None else [(best, 1), (best / 2, 0)], idf_sum)) == weight


@pytest.mark.parametrize("part", ["dense", "lexical"])
def test_one_search_keeps_its_order_and_what_repeats_is_ranked_lower(part):
    pairs = [(0.8, 5), (0.75, 3), (0.4, 1), (-0.1, 9)]
    dense, lexical = (found(pairs), None) if part == "dense" else (None, words(pairs))
    ranking = fuse(dense, lexical, no_vectors)
    assert ranking.rows.tolist() == [5, 3, 1, 9]
    low = lower_boilerplate(ranking, np.array([255, 0, 0, 255], np.uint8))
    assert low.rows.tolist() == [3, 5, 1, 9]
    assert low.scores.tolist() == pytest.approx([0.75, 0.72, 0.4, -0.11])
    assert low.columns[part].tolist() == pytest.approx([0.75, 0.8, 0.4, -0.1]), "as it was found"
    assert lower_boilerplate(ranking, np.zeros(4, np.uint8)).scores.tolist() == ranking.scores.tolist()


def test_what_was_read_comes_first():
    ranking = Ranking(np.arange(5), floats(9, 8, 7, 6, 5), {"dense": floats(1, 2, 3, 4, 5)})
    read = rerank(ranking, np.array([0, 2, 3]), floats(0, 1, 10), floats(0.1, 0.2, 0.3))
    assert read.rows.tolist() == [0, 3, 2, 1, 4]  # equal ones as they were
    assert read.scores == pytest.approx([7.5, 7.5, 6 + 3 * (1 / 6 + 0.05), 6.65, 5])
    assert np.array_equal(read.columns["rerank"], floats(0.1, 0.3, 0.2, np.nan, np.nan), equal_nan=True)
    assert read.columns["dense"].tolist() == [1, 4, 3, 2, 5]
    deeper = extend(read, fuse((floats(7, 1), np.array([2, 9])), None, no_vectors))
    assert deeper.rows.tolist() == [0, 3, 2, 1, 4, 9]
    assert np.isnan(deeper.columns["rerank"][-1])


def ranked(count):
    return Ranking(np.arange(count), np.linspace(1, 0.1, count, dtype=np.float32), {})


def test_a_copy_is_folded_into_the_best():
    choice = choose(ranked(4), facts([0, 1, 2, 3], [0xF0, 0, 0xF0, 0xF1]), k=2)
    assert choice.indices.tolist() == [0, 1]
    assert choice.folded == {0: [2, 3]}


def test_at_most_so_many_of_a_document():
    signatures = [1 << 5 * n | 0x1F << 5 * n for n in range(6)]
    choice = choose(ranked(6), facts([0, 0, 0, 1, 0, 1], signatures), k=6, per_document=2)
    assert choice.indices.tolist() == [0, 1, 3, 5]
    assert choice.left_out == {0: 2}


def test_collapse_folds_near_duplicates_and_makes_no_chains():
    a, b = 0b1111_0000, 1 << 63
    signatures = np.array([a, b, a ^ 1, a, 0xFFFF_FFFF, b ^ 0b111], dtype=np.uint64)
    assert collapse(signatures, near=2).tolist() == [0, 1, 0, 0, 4, 5]
    assert collapse(signatures, near=3).tolist() == [0, 1, 0, 0, 4, 1]
    assert collapse(np.empty(0, np.uint64)).tolist() == []
    # each differs from the next by two bits: the third is near the second, which is folded, but not near the first
    assert collapse(np.array([0, 0b11, 0b1111, 0b111111], dtype=np.uint64), near=2).tolist() == [0, 0, 2, 2]


class Generation:
    """Five rows, each of a document: the language of each, and its age in days."""

    languages = np.array(["en", "de", "en", "de", "fr"])
    days = (0, None, 365, 730, -30)

    def matches(self, rows, only):
        return self.languages[rows] == only.language[0]

    def row_facts(self, rows):
        return facts(rows, rows)

    def facts(self, numbers):
        ages = {number: self.days[number] for number in numbers}
        dates = {number: None if age is None else str(date.today() - timedelta(age)) for number, age in ages.items()}
        return {number: DocumentFacts("", "", None, "", day) for number, day in dates.items()}


@pytest.mark.parametrize(
    ("rules", "scores"),
    [
        ("language=de*2", {1: 1.8, 3: 1.4, 0: 1.0, 2: 0.8, 4: -0.6}),
        ("language=de*2; language=fr * 0.5 ;", {1: 1.8, 3: 1.4, 0: 1.0, 2: 0.8, 4: -0.9}),
        ("language=fr*1.5", {0: 1.0, 1: 0.9, 2: 0.8, 3: 0.7, 4: -0.3}),  # what is below zero goes the same way
        ("age=365*0.5", {0: 1.0, 1: 0.9, 2: 0.4, 3: 0.175, 4: -0.6}),
    ],
)
def test_boosts(rules, scores):
    ranking = Ranking(np.arange(5), floats(1.0, 0.9, 0.8, 0.7, -0.6), {})
    boosted = Boosts.parse(rules).apply(ranking, Generation())
    assert boosted.rows.tolist() == list(scores)
    assert boosted.scores.tolist() == pytest.approx(list(scores.values()))


@pytest.mark.parametrize(
    "rule",
    ["language=en", "language*2", "colour=red*2", "language=en*0", "language=en*x", "age=x*2", "age=-1*2", "en*2"],
)
def test_mistakes_in_boosts_name_the_rule(rule):
    with pytest.raises(SettingsError, match="boost: '") as caught:
        Boosts.parse(f"language=en*2; {rule}")
    assert rule in str(caught.value)
