import json

import numpy as np
import pytest

from rag.evaluation.comparison import compare, p_value
from rag.evaluation.comparison_page import page, plot
from rag.evaluation.comparison_text import as_text

QUERIES = {"q1": "how do cats sleep", "q2": "<b>dogs</b>", "q3": "fish"}
JUDGED = {"q1": {"d1": 1}, "q2": {"d2": 2, "d3": 1, "d9": 0}, "q3": {"d3": 1}}
A = {"q1": {"d1": 0.9}, "q2": {"d2": 0.9, "d3": 0.8}, "q3": {"d1": 0.9}}
B = {"q1": {"d2": 0.9, "d1": 0.8}, "q2": {"d2": 0.9, "d3": 0.8}, "q3": {"d3": 0.9}}


def found():
    side = {"side": "live", "documents": 3, "model": "m", "precision": "fp32", "mode": "hybrid"}
    compared = compare(QUERIES, JUDGED, A, B).as_dict()
    return {"a": side, "b": side | {"side": "live,mode=dense", "missing": 1}, **compared}


def test_each_query_is_compared():
    compared = compare(QUERIES, JUDGED, A, B)
    assert [(change.id, np.sign(change.difference)) for change in compared.queries] == [
        ("q1", -1),
        ("q2", 0),
        ("q3", 1),
    ]
    worst, same, best = compared.queries
    assert (worst.a["mrr@10"], worst.b["mrr@10"]) == (1.0, 0.5)
    assert [(each.id, each.a, each.b) for each in worst.relevant] == [("d1", 1, 2)]
    assert [each.id for each in same.relevant] == ["d2", "d3"]  # what is judged 0 is not relevant
    assert [(each.id, each.a, each.b) for each in best.relevant] == [("d3", None, 1)]
    ndcg = compared.measures["ndcg@10"]
    assert (ndcg.better, ndcg.worse, ndcg.same) == (1, 1, 1)
    assert ndcg.b - ndcg.a == pytest.approx(ndcg.difference) == pytest.approx((1 / np.log2(3) - 1 + 1) / 3)


def test_a_query_without_hits_counts_as_nothing_found():
    compared = compare(QUERIES, JUDGED, A, {})
    assert compared.measures["recall@100"].b == 0
    assert len(compared.queries) == len(QUERIES)


def test_the_test_looks_at_every_choice_of_signs():
    assert p_value(np.zeros(9)) == 1
    assert p_value(np.array([0.3])) == 1
    assert p_value(np.full(10, 0.1)) == pytest.approx(2 / 2**10)  # all or none of them turned
    assert p_value(np.array([0.2, 0.1, -0.1])) == pytest.approx(6 / 8)  # of eight sums, six are as large


def test_of_many_queries_a_sample_is_taken_which_is_the_same_each_time():
    differences = np.random.default_rng(1).normal(0.02, 0.2, 200)
    assert p_value(differences) == p_value(differences)
    assert p_value(np.abs(differences)) < 0.001
    assert p_value(differences - differences.mean()) > 0.9


def test_text():
    lines = as_text(found()).splitlines()
    assert lines[1] == "B  live,mode=dense: 3 documents, m (fp32), hybrid"
    assert "B does not have 1 of the documents that are judged relevant" in lines
    assert lines[lines.index("worse in B") + 2].strip() == "d1 1. → 2."
    assert lines[lines.index("better in B") + 2].strip() == "d3 not found → 1."


def test_the_page_escapes_what_was_asked():
    text = page(found())
    assert "&lt;b&gt;dogs" in text
    assert "<b>dogs" not in text
    assert text.count("<rect") == 2
    assert "<script" not in text
    assert "B answers 1 of 3 queries worse and 1 better" in text


def test_a_plot_of_very_many_queries_stays_small():
    assert plot([-0.1] * 5_000).count("<rect") <= 2_000


def test_json():
    assert json.loads(json.dumps(found()))["measures"]["mrr@10"]["worse"] == 1
