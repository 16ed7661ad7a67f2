"""The ranking functions, on lists that a test chooses, and explanations of the scores that they make."""

import os
from datetime import date, timedelta
from itertools import product

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from indexer.generation.documents import DocumentFacts
from indexer.generation.generation import Generation
from indexer.generation.rows import RowFacts
from rag.errors import SettingsError
from rag.query.explain import Explanation, in_words
from rag.query.ranking import Ranking
from rag.query.request import Limits, SearchRequest
from rag.query.results import as_text
from rag.query.retriever import Retriever
from rag.query.rules import Boosts
from rag.query.served_model import RerankQueue
from tests.dummy import DummyCrossEncoder, DummyEmbedder
from tests.rag.conftest import Site


def floats(*values):
    return np.array(values, dtype=np.float32)


def facts(documents, signatures):
    return RowFacts(np.array(documents, np.int64), np.array(signatures, np.uint64))


class Rows:
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
    boosted = Boosts.parse(rules).apply(ranking, Rows())
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
    """More pages than one search looks at, some of another kind and age."""
    site = Site(tmp_path_factory.mktemp("site"))
    random = np.random.default_rng(5)
    words = "vacuum tuples index table rows storage commit locks pages cost plan join".split()
    for number in range(110):
        path = site.source / f"page{number:03}.{'md' if number % 3 else 'txt'}"
        lines = [" ".join(random.choice(words, 9)) + f" number{number}" for _ in range(2)]
        lines += ["This text is on a great many of the pages."] * (number % 4 == 0)
        path.write_text(f"# Title {number}\n\n" + "\n\n".join(lines) + "\n", encoding="utf-8")
        os.utime(path, (1.7e9 - number * 1e6, 1.7e9 - number * 1e6))
    site.build(tokens=request.param)
    return site.index


def opened(index, boost=""):
    reranker = RerankQueue(DummyCrossEncoder())
    return Retriever(Generation.open(index), DummyEmbedder(), reranker=reranker, limits=Limits(boost=boost))


@pytest.mark.parametrize("boost", ["", "content_type=text/plain*0.6; age=900*0.7"], ids=["plain", "boosts"])
def test_every_kind_of_search(index, boost):
    retriever = opened(index, boost)
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
    assert seen - {"limit"} == ({"rerank", "boosts"} if boost else {"rerank"})
    assert "limit" in seen or not (boost or has_tokens)


def test_duplicates_and_passages_beyond_the_limit_are_counted(site):
    (site.source / "copy.md").write_text("# Vacuum\n\nVacuum reclaims the storage that dead tuples occupy!\n")
    lines = [f"## Part {n}\n\nVacuum {' '.join(f'word{n}x{place}' for place in range(99))}." for n in range(6)]
    (site.source / "long.md").write_text("# Long\n\n" + "\n\n".join(lines))
    site.build()
    answer = Retriever(Generation.open(site.index), DummyEmbedder(), limits=Limits(per_document=2)).answer_query(
        SearchRequest("vacuum reclaims storage", explain=True)
    )
    whys = {hit.title: hit.explanation for hit in answer.hits}
    assert (whys["Vacuum"]["folded"], whys["Vacuum"]["left_out"]) == (1, 0)
    left_out = max(hit.more for hit in answer.hits)
    assert (whys["Long"]["folded"], whys["Long"]["left_out"]) == (0, left_out)
    assert dict(in_words(whys["Long"]))["Place"].endswith(f"{left_out} more of its document left out")
    assert left_out > 0
    assert "stands for 1 duplicate" in dict(in_words(whys["Vacuum"]))["Place"]
    assert "place: " in as_text(answer.as_dict())
