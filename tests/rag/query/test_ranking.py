"""Explanations of the scores that the ranking makes."""

from itertools import product

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from indexer.generation.generation import Generation
from indexer.generation.rows import TermHits
from rag.query.ranking import fuse, trust_in_meaning
from rag.query.request import SearchRequest
from rag.query.results import Explanation, as_text, in_words
from rag.query.retriever import Retriever
from rag.query.served_model import RerankQueue
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import Site

SCHEMA = Draft202012Validator(msgspec.json.schema(Explanation))


QUERY = "vacuum tupels of an indxe"  # corrected to tuples and index
PARTS = ("dense", "lexical", "tokens")


def last_score(why):
    """The score that the last step led to, the sum of the parts checked on the way."""
    parts = [why[name] for name in PARTS if why[name]]
    assert sum(part["weight"] for part in parts) == pytest.approx(1)
    assert why["fused"] == about(sum(part["scaled"] * part["weight"] for part in parts))
    return why["steps"][-1]["score"] if why["steps"] else why["fused"]


def about(value):
    """A number as float32 has it, after some steps."""
    return pytest.approx(value, rel=1e-5, abs=2e-6)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tokens"])
def index(request, tmp_path_factory):
    """More pages than one search looks at."""
    site = Site(tmp_path_factory.mktemp("site"))
    random = np.random.default_rng(5)
    words = "vacuum tuples index table rows storage commit locks pages cost plan join".split()
    for number in range(110):
        path = site.source / f"page{number:03}.md"
        lines = [" ".join(random.choice(words, 9)) + f" number{number}" for _ in range(2)]
        lines += ["This text is on a great many of the pages."] * (number % 4 == 0)
        path.write_text(f"# Title {number}\n\n" + "\n\n".join(lines) + "\n", encoding="utf-8")
    site.build(tokens=request.param)
    return site.index


def test_every_kind_of_search(index):
    retriever = Retriever(Generation.open(index), DummyEmbedder(), reranker=RerankQueue(DummyCrossEncoder()))
    has_tokens = retriever.generation.tokens is not None
    seen = set()
    options = product(["dense", "lexical", "hybrid"], [False, True], [0, 98])
    for mode, reranked, offset in options:
        request = {"mode": mode, "rerank": reranked, "offset": offset}
        plain = retriever.answer_query(SearchRequest(QUERY, **request))
        answer = retriever.answer_query(SearchRequest(QUERY, explain=True, **request))
        assert len(answer.hits) == 10
        assert [replace(hit, explanation=None) for hit in answer.hits] == plain.hits, "nothing else is different"
        for hit in answer.hits:
            why = hit.explanation
            assert last_score(why) == about(hit.score)
            SCHEMA.validate(why)
            assert [why[name] is not None for name in PARTS] == [
                mode != "lexical", mode != "dense", has_tokens and mode != "lexical",
            ]  # fmt: skip
            for name in PARTS:
                assert (why[name] and why[name]["score"]) == hit.scores[name]
            assert ("rerank" in {step["name"] for step in why["steps"]}) == (hit.scores["rerank"] is not None)
            assert (why["folded"], why["left_out"]) == (len(hit.duplicates), hit.more)
            assert why["rank"] >= hit.rank
            seen |= {step["name"] for step in why["steps"]}
            assert all(text for _, text in in_words(why))
    assert seen - {"limit"} == {"rerank"}


def test_duplicates_and_passages_beyond_the_limit_are_counted(site):
    (site.source / "copy.md").write_text("# Vacuum\n\nVacuum reclaims the storage that dead tuples occupy!\n")
    lines = [f"## Part {n}\n\nVacuum {' '.join(f'word{n}x{place}' for place in range(99))}." for n in range(6)]
    (site.source / "long.md").write_text("# Long\n\n" + "\n\n".join(lines))
    site.build()
    answer = Retriever(Generation.open(site.index), DummyEmbedder()).answer_query(
        SearchRequest("vacuum reclaims storage", explain=True)
    )
    whys = {hit.title: hit.explanation for hit in answer.hits}
    assert (whys["Vacuum"]["folded"], whys["Vacuum"]["left_out"]) == (1, 0)
    left_out = max(hit.more for hit in answer.hits)
    assert (whys["Long"]["folded"], whys["Long"]["left_out"]) == (0, left_out)
    assert dict(in_words(whys["Long"]))["Place"].endswith(f"{left_out} more of its document left out")
    assert left_out > 0
    assert "stands for 1 other" in dict(in_words(whys["Vacuum"]))["Place"]
    assert "place: " in as_text(answer.as_dict())


@pytest.mark.parametrize(
    ("query", "passages", "trust"),
    [
        ((0, 10), (3, 100), 1.0),  # a language that the model knows
        ((38, 40), (95, 100), 0.08),  # one that it does not
        ((0, 1), (95, 100), 0.08),  # a name in a collection of that language
        ((1, 4), (5, 100), 1.0),  # a name that is broken, in a collection that the model knows
        ((6, 10), (5, 100), 0.51),
        ((0, 0), (0, 0), 1.0),
    ],
)
def test_meaning_counts_as_far_as_the_model_knows_the_language(
    query: tuple[int, int], passages: tuple[int, int], trust: float
) -> None:
    assert trust_in_meaning(query, passages) == pytest.approx(trust, abs=0.01)


def test_words_decide_where_the_model_does_not_know_the_language() -> None:
    dense = np.array([0.9, 0.8], np.float32), np.array([1, 2])
    lexical = TermHits(np.array([9.0, 4.0], np.float32), np.array([2, 1]), 10.0)
    assert fuse(dense, lexical, lambda rows: np.zeros(len(rows), np.float32), known=1.0).rows[0] == 1
    assert fuse(dense, lexical, lambda rows: np.zeros(len(rows), np.float32), known=0.1).rows[0] == 2
    nowhere = TermHits(np.array([1.0], np.float32), np.array([2]), 20.0)  # no passage has the words of the query
    assert fuse(dense, nowhere, lambda rows: np.zeros(len(rows), np.float32), known=0.1).rows[0] == 1
