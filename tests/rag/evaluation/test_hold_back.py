"""The judge of a new generation, on indexes of a dummy model."""

import pytest

from indexer.generation.layout import GENERATIONS
from indexer.generation.manifest import VECTORS
from rag.errors import FingerprintMismatch
from rag.evaluation.hold_back import GenerationJudge
from rag.query.request import Limits
from tests.dummy import DummyEmbedder

QUERIES = {"q1": "index of rows that satisfy a predicate", "q2": "what vacuum reclaims"}


@pytest.fixture
def judged(site):
    """What a judge says of two generations, the second without a page."""
    first = site.build()
    (site.source / "partial.md").unlink()
    second = site.build()

    def judge(live=first, draft=second, most=0.02, prefix="", embedder_of=lambda manifest: DummyEmbedder()):
        pages = {id: {f"{prefix}{(site.source / name).as_uri()}#x": 1} for id, name in zip(QUERIES, PAGES, strict=True)}
        asked = GenerationJudge(QUERIES, pages, most, Limits(), embedder_of)
        return asked(*(site.index / GENERATIONS / name for name in (live, draft)))

    judge.first, judge.second = first, second
    return judge


PAGES = ("partial.md", "vacuum.md")


def test_one_that_answers_worse_is_held_back(judged):
    held = judged()
    assert held.generation == judged.second
    assert held.reason == "nDCG@10 of 2 questions is 0.5000 instead of 1.0000 (p = 1.0000); 0.02 may be lost"
    assert held.figures["measures"]["ndcg@10"]["worse"] == 1


def test_what_may_be_lost_is_set(judged):
    assert judged(most=0.5) is None
    assert judged(most=0.49) is not None


def test_one_that_answers_better_is_not_held_back(judged):
    assert judged(live=judged.second, draft=judged.first, most=0) is None


def test_questions_of_another_collection_judge_nothing(judged, capsys):
    assert judged(prefix="x") is None
    assert f"generation {judged.first} has no document that is judged relevant" in capsys.readouterr().err


def test_without_the_model_of_the_live_one_it_is_held_back(judged):
    def unknown(manifest):
        raise FingerprintMismatch("it was built by another embedder")

    held = judged(embedder_of=unknown)
    assert held.reason == "it cannot be compared with the live one: it was built by another embedder"


def test_a_live_one_that_is_damaged_gives_way(judged, site, capsys):
    (site.index / GENERATIONS / judged.first / VECTORS).write_bytes(b"nonsense")
    assert judged() is None
    assert "was not judged" in capsys.readouterr().err
