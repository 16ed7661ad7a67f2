import numpy as np
import pytest

from rag.query.scoring.fusion import (
    EVEN,
    Weights,
    aligned,
    best_first,
    cap,
    collapse,
    mmr,
    reciprocal_rank,
    trusted,
    union,
    weighted_sum,
)

CANDIDATES = np.array([2, 5, 7, 9])


def floats(*values):
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(("some", "others"), [([], []), ([7], []), ([], [7]), ([9, 2, 5], [5, 7, 2]), ([3, 1], [3, 1])])
def test_union_is_ascending_and_has_each_row_once(some, others):
    found = union(np.array(some, dtype=np.int64), np.array(others, dtype=np.int64))
    assert found.tolist() == sorted({*some, *others})
    assert found.dtype == np.int64


def test_aligned():
    found = aligned(CANDIDATES, np.array([9, 5]), floats(0.9, 0.5), -1)
    assert found.tolist() == floats(-1, 0.5, -1, 0.9).tolist()
    assert found.dtype == np.float32


def test_reciprocal_rank():
    scores = reciprocal_rank(CANDIDATES, [np.array([9, 5]), np.array([5, 2])], k=60)
    assert scores == pytest.approx([1 / 62, 1 / 62 + 1 / 61, 0, 1 / 61])
    assert reciprocal_rank(CANDIDATES, [], k=60).tolist() == [0, 0, 0, 0]


def test_weighted_sum():
    dense, lexical = floats(0.2, 0.6, 0.4, 0.3), floats(0, 5, 10, 0)
    assert weighted_sum(dense, lexical) == pytest.approx([0, 0.75, 0.75, 0.125])
    assert weighted_sum(dense, lexical, Weights(1, 0)) == pytest.approx([0, 1, 0.5, 0.25])
    assert weighted_sum(dense, lexical, Weights(0, 1)) == pytest.approx([0, 0.5, 1, 0])
    assert weighted_sum(dense, lexical).dtype == np.float32


def test_weighted_sum_does_not_depend_on_where_cosines_begin():
    dense, lexical = floats(0.1, 0.3, 0.2), floats(3, 0, 4)
    assert weighted_sum(dense + np.float32(0.6), lexical) == pytest.approx(weighted_sum(dense, lexical), abs=1e-5)


@pytest.mark.parametrize(
    ("dense", "lexical", "expected"),
    [
        ([], [], []),
        ([0.4], [0], [0.5]),
        ([0.4], [3], [1]),
        ([0.4, 0.4], [0, 0], [0.5, 0.5]),
        ([-0.2, 0.2], [0, 0], [0, 0.5]),
    ],
)
def test_weighted_sum_of_little(dense, lexical, expected):
    assert weighted_sum(floats(*dense), floats(*lexical)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("best", "idf_sum", "weight"),
    [(3, 12, 0.5), (6, 12, 1), (30, 12, 1), (0, 12, 0), (3, 0, 1)],
)
def test_words_count_less_where_the_best_hit_has_less_than_half_of_the_query(best, idf_sum, weight):
    assert trusted(floats(best / 2, best, 0), idf_sum) == Weights(1, weight, 1)


def test_words_that_find_nothing_leave_the_weights_even():
    assert trusted(floats(), 12) == EVEN


def test_best_first_keeps_the_order_of_equals():
    assert best_first(floats(1, 3, 1, 3)).tolist() == [1, 3, 0, 2]


def test_collapse():
    a, b = 0b1111_0000, 1 << 63
    signatures = np.array([a, b, a ^ 1, a, 0xFFFF_FFFF, b ^ 0b111], dtype=np.uint64)
    assert collapse(signatures, near=2).tolist() == [0, 1, 0, 0, 4, 5]
    assert collapse(signatures, near=3).tolist() == [0, 1, 0, 0, 4, 1]
    assert collapse(signatures, near=0).tolist() == [0, 1, 2, 0, 4, 5]
    assert collapse(np.empty(0, np.uint64)).tolist() == []


def test_collapse_makes_no_chains():
    # each differs from the next by two bits: the third is near the second, which is folded, but not near the first
    signatures = np.array([0, 0b11, 0b1111, 0b111111], dtype=np.uint64)
    assert collapse(signatures, near=2).tolist() == [0, 0, 2, 2]


def test_cap():
    documents = np.array([4, 4, 1, 4, 1, 9, 4], dtype=np.uint32)
    assert cap(documents, 1).tolist() == [True, False, True, False, False, True, False]
    assert cap(documents, 2).tolist() == [True, True, True, False, True, True, False]
    assert cap(documents, 100).all()
    assert cap(np.empty(0, np.uint32), 1).tolist() == []


def test_mmr():
    vectors = np.array([[1, 0], [1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    relevance = floats(1, 0.99, 0.5, 0.4)
    assert mmr(vectors, relevance, 1, 4).tolist() == [0, 1, 2, 3]
    assert mmr(vectors, relevance, 0.5, 3).tolist() == [0, 3, 1]
    assert mmr(vectors, relevance, 0, 2).tolist() == [0, 3]
    assert mmr(vectors, relevance, 0.5, 9).size == 4
    assert mmr(vectors[:0], relevance[:0], 0.5, 3).tolist() == []


def test_mmr_is_what_its_definition_says():
    chance = np.random.default_rng(0)
    vectors = chance.standard_normal((30, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = chance.random(30).astype(np.float32)
    picked = [int(np.argmax(relevance))]
    while len(picked) < 12:
        left = [i for i in range(30) if i not in picked]
        picked.append(max(left, key=lambda i: 0.6 * relevance[i] - 0.4 * max(vectors[i] @ vectors[j] for j in picked)))
    assert mmr(vectors, relevance, 0.6, 12).tolist() == picked
