import numpy as np
import pytest

from indexer.generation.rows import DTYPE
from rag.query.scoring.ranking import Ranking, choose, extended, fused, interacted, lowered, single


def found(pairs):
    return np.array([score for score, _ in pairs], np.float32), np.array([row for _, row in pairs], np.int64)


def facts(documents, signatures):
    rows = np.empty(len(documents), DTYPE)
    rows["document"], rows["signature"] = documents, signatures
    return rows


def no_vectors(rows):
    raise AssertionError(f"vectors of {rows} were asked for")


def test_what_only_words_found_gets_its_cosine():
    asked = []

    def cosines(rows):
        asked.append(rows.tolist())
        return np.full(len(rows), 0.5, np.float32)

    ranking = fused(found([(0.9, 7), (0.4, 2)]), found([(12.0, 3), (6.0, 7)]), cosines)
    assert asked == [[3]]
    assert ranking.rows.tolist() == [7, 3, 2]
    assert ranking.dense.tolist() == pytest.approx([0.9, 0.5, 0.4])
    assert ranking.lexical.tolist() == [6.0, 12.0, 0.0]
    assert ranking.scores.tolist() == sorted(ranking.scores.tolist(), reverse=True)


def test_a_query_of_which_words_find_little_is_ranked_by_meaning():
    dense, lexical = found([(0.9, 7), (0.4, 3), (0.2, 2)]), found([(12.0, 3), (3.0, 7)])
    by_both, by_meaning = (fused(dense, lexical, no_vectors, idf_sum=total) for total in (24.0, 240.0))
    assert by_both.rows.tolist() == [3, 7, 2]
    assert by_meaning.rows.tolist() == [7, 3, 2]
    assert by_meaning.weights == (1, pytest.approx(0.1), 1)
    assert by_meaning.scores[0] == pytest.approx((1 + 0.1 / 4) / 1.1)
    assert fused(dense, lexical, no_vectors, idf_sum=240.0, fusion="rrf").weights is None


@pytest.mark.parametrize("is_dense", [True, False])
def test_what_repeats_is_ranked_lower(is_dense):
    ranking = single(found([(0.8, 5), (0.75, 3), (0.4, 1), (-0.1, 9)]), is_dense=is_dense)
    low = lowered(ranking, np.array([255, 0, 0, 255], np.uint8))
    assert low.rows.tolist() == [3, 5, 1, 9]
    assert low.scores.tolist() == pytest.approx([0.75, 0.72, 0.4, -0.11])
    kept, other = (low.dense, low.lexical) if is_dense else (low.lexical, low.dense)
    assert kept.tolist() == pytest.approx([0.75, 0.8, 0.4, -0.1]), "as it was found"
    assert other is None
    same = lowered(ranking, np.zeros(4, np.uint8))
    assert same.rows.tolist() == ranking.rows.tolist()
    assert same.scores.tolist() == ranking.scores.tolist()


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_best_in_both_is_best(fusion):
    ranking = fused(found([(0.9, 7), (0.4, 2)]), found([(12.0, 7), (6.0, 2)]), no_vectors, fusion=fusion)
    assert ranking.rows.tolist() == [7, 2]


def test_nothing_found_by_either():
    empty = found([])
    assert fused(empty, empty, no_vectors).rows.tolist() == []


def test_one_search_keeps_its_order():
    ranking = single(found([(3.0, 9), (1.0, 4)]), is_dense=False)
    assert (ranking.rows.tolist(), ranking.dense, ranking.lexical.tolist()) == ([9, 4], None, [3.0, 1.0])


def ranked(count):
    return Ranking(np.arange(count), np.linspace(1, 0.1, count, dtype=np.float32), None, None)


def test_a_copy_is_folded_into_the_best():
    choice = choose(ranked(4), facts([0, 1, 2, 3], [0xF0, 0, 0xF0, 0xF1]), no_vectors, k=2)
    assert choice.indices.tolist() == [0, 1]
    assert choice.folded == {0: [2, 3]}


def test_copies_far_down_are_looked_past():
    signatures = [0] * 60 + [(1 << 40) - 1, (1 << 60) - (1 << 50)]
    choice = choose(ranked(62), facts(range(62), signatures), no_vectors, k=3)
    assert choice.indices.tolist() == [0, 60, 61]


def test_at_most_so_many_of_a_document():
    signatures = [1 << 5 * n | 0x1F << 5 * n for n in range(6)]
    choice = choose(ranked(6), facts([0, 0, 0, 1, 0, 1], signatures), no_vectors, k=6, per_document=2)
    assert choice.indices.tolist() == [0, 1, 3, 5]
    assert choice.left_out == {0: 2}


def test_variety_looks_at_vectors():
    vectors = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    signatures = [0x1F << 10 * n for n in range(3)]
    choice = choose(ranked(3), facts([0, 1, 2], signatures), lambda rows: vectors[rows], k=2, diversity=0.8)
    assert choice.indices.tolist() == [0, 2]


def test_nothing_to_choose_from():
    choice = choose(ranked(0), facts([], []), no_vectors, k=5, per_document=1, diversity=0.5)
    assert (choice.indices.tolist(), choice.folded) == ([], {})


def maxsim_of(scores):
    """Gives the MaxSim of rows."""
    return lambda rows: np.array([scores[row] for row in rows.tolist()], np.float32)


def test_tokens_are_a_third_of_a_hybrid_ranking():
    dense, lexical = found([(0.9, 7), (0.5, 2)]), found([(12.0, 3), (6.0, 7)])
    ranking = fused(dense, lexical, lambda rows: np.full(len(rows), 0.7), maxsim=maxsim_of({2: 0.8, 3: 0.6, 7: 0.4}))
    # cosines 0, 0.5, 1; words 0, 1, 0.5; tokens 1, 0.5, 0
    assert dict(zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True)) == pytest.approx(
        {2: 1 / 3, 3: 2 / 3, 7: 0.5}
    )
    assert ranking.rows.tolist() == [3, 7, 2]
    assert ranking.tokens.tolist() == pytest.approx([0.6, 0.4, 0.8])
    by_rank = fused(dense, lexical, no_vectors_but(0.7), maxsim=maxsim_of({2: 0.8, 3: 0.6, 7: 0.4}), fusion="rrf")
    assert by_rank.rows.tolist() == [7, 2, 3]
    low = lowered(ranking, np.array([255, 0, 0], np.uint8))
    assert dict(zip(low.rows.tolist(), low.tokens.tolist(), strict=True)) == pytest.approx({2: 0.8, 3: 0.6, 7: 0.4})


def no_vectors_but(cosine):
    return lambda rows: np.full(len(rows), cosine, np.float32)


def test_tokens_order_a_dense_ranking():
    ranking = interacted(found([(0.9, 7), (0.8, 2), (0.5, 4)]), maxsim_of({7: 0.2, 2: 0.6, 4: 0.6}))
    assert ranking.rows.tolist() == [2, 4, 7]
    assert ranking.scores.tolist() == ranking.tokens.tolist() == pytest.approx([0.6, 0.6, 0.2])
    assert ranking.dense.tolist() == pytest.approx([0.8, 0.5, 0.9])
    assert ranking.lexical is None
    deeper = extended(ranking, interacted(found([(0.9, 7), (0.1, 1)]), maxsim_of({7: 0.2, 1: 0.9})))
    assert deeper.rows.tolist() == [2, 4, 7, 1]
    assert deeper.tokens.tolist() == pytest.approx([0.6, 0.6, 0.2, 0.9])


def test_nothing_found_has_no_tokens():
    empty = found([])
    assert interacted(empty, maxsim_of({})).rows.tolist() == []
    assert fused(empty, empty, no_vectors, maxsim=maxsim_of({})).rows.tolist() == []
