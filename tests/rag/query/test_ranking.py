"""Explanations of the scores that the ranking makes."""

import io
from itertools import product
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from indexer.config import BuildConfig
from indexer.generation.generation import Generation
from indexer.generation.languages import LanguageStats
from indexer.generation.rows import RowFacts, ScoredRows
from indexer.pipeline.build import build, remove_sources
from indexer.pipeline.progress import Progress
from rag.query.model_queue import RerankQueue
from rag.query.ranking import Choice, Ranking, choose, fuse, is_close
from rag.query.request import SearchRequest
from rag.query.results import Explanation, as_text, explain, explanation_lines
from rag.query.retriever import Retriever, coverage
from rag.query.weighting import (
    SIGNALS,
    CollectionFacts,
    QueryFacts,
    describe,
    measure_unrelated,
    share_of_code,
    trust_in_meaning,
)
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
            assert all(text for _, text in explanation_lines(why))
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
    assert dict(explanation_lines(whys["Long"]))["Place"].endswith(f"{left_out} more of its document left out")
    assert left_out > 0
    assert "represents 1 other" in dict(explanation_lines(whys["Vacuum"]))["Place"]
    assert "place: " in as_text(answer.as_dict())


def test_an_answer_laid_out_for_a_terminal() -> None:
    part = {"score": 0.5, "rank": 2, "scaled": 0.25, "weight": 0.5}
    why = {"dense": part, "lexical": part | {"score": None}, "tokens": None, "weights": "as usual", "fused": 0.25}
    why |= {"rank": 3, "candidates": 9, "folded": 2, "left_out": 4}
    why["steps"] = [{"name": "limit", "why": "found later", "score": 0.125}]
    hit = {"rank": 1, "title": "A", "section": "A › B", "text": "a b\n c", "score": 0.125, "url": "u", "version": None}
    long = {"rank": 2, "section": "", "text": "x" * 201, "version": "2", "also": [{"version": "1"}, {"version": "0"}]}
    also = [{"searched": ["a", "b"], "typed": "c"}, {"searched": ["d"], "typed": "e"}]
    answer = {"hits": [hit | {"collection": "one", "explanation": why}, hit | long | {"collection": "two"}]}
    answer |= {"excluded": ["-y"], "required": ['"x"', "z"], "unavailable": ["three"], "also_searched": also}
    answer |= {"did_you_mean": "yes", "close": False, "took_ms": {"total": 1.25, "embed": 0.5}}
    assert as_text(answer | {"collections": ["one", "two"]}) == "\n".join(
        [
            "without: -y", "", 'only with: "x", z', "", "not ready, so left out: three", "", "did you mean: yes", "",
            "also searched for: a, b (c); d (e)", "", "nothing close; nearest:", "", " 1. A › B  (0.125)",
            "    u  in one", "    a b c", "      meaning: 0.50, rank 2: 0.25 × 0.50 = 0.125",
            "      words: not found: 0.25 × 0.50 = 0.125", "      weights: as usual", "      sum: 0.250",
            "      limit: found later: gives 0.125",
            "      place: 3 of 9 candidates; represents 2 others; 4 more of its document left out", "",
            " 2. A  (0.125)", "    u  in two", "    version 2, also in 1, 0", f"    {'x' * 200}…", "",
            "2 hits in 1.2 ms (embedding 0.5 ms)",
        ]
    )  # fmt: skip
    answer["hits"][1]["text"] = "x" * 200
    assert f"{'x' * 200}\n" in as_text(answer | {"collections": ["one", "two"]})


EN, EL, TR = LanguageStats("en", 50, 0.05), LanguageStats("el", 50, 0.95), LanguageStats("tr", 1, 0.3)


@pytest.mark.parametrize(
    ("query", "languages", "trust"),
    [
        ((0, 10), [EN], 1.0),
        ((38, 40), [EL], 0.08),
        ((0, 1), [EL], 0.08),  # a name in a collection in a language that the model does not know
        ((1, 4), [EN], 1.0),  # a name that is broken, in a collection that it knows
        ((6, 10), [EN], 0.51),
        ((0, 0), [], 1.0),
        ((0, 10), [EN, EL], 1.0),  # of two languages, that of the query
        ((9, 10), [EN, EL], 0.08),
        ((0, 1), [EN, EL], 1.0),
        ((200, 256), [EN, EL, TR], 0.08),
        ((0, 1), [LanguageStats("en", 9, 0.0)], 1.0),
        ((1, 1), [LanguageStats("el", 0, 1.0)], 0.08),
        ((2, 8), [LanguageStats("en", 0, 0.1), LanguageStats("el", 3, 0.3)], 0.184),
    ],
)
def test_meaning_counts_as_far_as_the_model_knows_the_language(query, languages, trust):
    assert trust_in_meaning(query, tuple(languages)) == pytest.approx(trust, abs=0.01)


def test_unrelated_texts_are_compared_with_each_other_as_queries() -> None:
    class Turned(DummyEmbedder):
        """Embeds the texts as unit vectors, each turned from the one before by the same angle."""

        def encode_ids(self, rows, *, role="document", tokens=False):
            assert role == "query"
            angles = np.pi / 6 * np.arange(len(rows))
            return np.stack([np.cos(angles), np.sin(angles)], axis=1), []

    pairs = [np.cos(np.pi / 6 * (one - other)) for one, other in product(range(6), repeat=2) if one != other]
    assert measure_unrelated(Turned()) == pytest.approx(sum(pairs) / 30)


def rank(lexical, *, spoken=EN):
    """Rank two passages of which the first is the better one by meaning; explained."""
    dense = ScoredRows(np.array([0.9, 0.8], np.float32), np.array([1, 2]))
    pieces = (19, 20) if spoken is EL else (0, 20)
    query = QueryFacts(CollectionFacts(0.0, (spoken,), 0.0), pieces)
    return fuse(dense, lexical, lambda rows: np.zeros(len(rows), np.float32), None, query, explain=True)


def reason_of(ranking):
    why = explain(ranking, Choice(np.array([0, 1]), np.array([0, 1]), {}, {}, {}), 0)
    return dict(explanation_lines(why))["Weights"]


def test_words_decide_where_the_model_does_not_know_the_language() -> None:
    lexical = ScoredRows(np.array([9.0, 4.0], np.float32), np.array([2, 1]))
    known, unknown = rank(lexical), rank(lexical, spoken=EL)
    assert unknown.rows[0] == 2
    assert unknown.columns["lexical_weight"][0] > 0.8 > known.columns["lexical_weight"][0]
    assert reason_of(rank(lexical, spoken=EL)).endswith("because the model hardly knows the language")


def test_weights_follow_the_signals() -> None:
    lexical = ScoredRows(np.array([9.0, 4.0], np.float32), np.array([2, 1]))
    alike = ScoredRows(np.linspace(9, 8.9, 10, dtype=np.float32), np.arange(1, 11))
    nothing = ScoredRows.none()
    of_address = ScoredRows(np.zeros(12, np.float32), np.arange(1, 13))
    weight_of = {
        name: float(rank(hits).columns["lexical_weight"][0])
        for name, hits in (("usual", lexical), ("alike", alike), ("nothing", nothing), ("of_address", of_address))
    }
    assert weight_of["alike"] < weight_of["usual"]
    assert 0 < weight_of["nothing"] == weight_of["of_address"] < 1
    assert describe(dict.fromkeys(SIGNALS, 0.0)) == "words and meaning count as usual"


def test_close_counts_from_the_cosine_of_unrelated_texts() -> None:
    cases = (0.4, 0.0), (0.4, 0.6), (0.4, 0.74), (0.0, 0.9)
    assert [is_close([0.8], [0.0], close, unrelated) for close, unrelated in cases] == [True, True, False, True]
    words = (0.2, 1.0), (0.19, 1.0), (0.36, 0.25), (0.34, 0.25), (0.39, 0.0)
    assert [is_close([near], [share], 0.4, 0.0) for near, share in words] == [True, False, True, False, False]
    assert is_close([0.1, 0.35], [1.0, 0.6], 0.4, 0.0), "the hit that has the words is near enough"
    assert [is_close([None], [share], 0.4, 0.0) for share in (0.34, 0.33)] == [True, False], "only words were searched"


def test_tokens_are_compared_with_the_best_candidates_of_both_searches() -> None:
    query = QueryFacts(CollectionFacts(0.0, (EN,), 0.0), (0, 20))
    for depth, compared in ((50, 80), (100, 80), (150, 120)):
        depths: list[int] = []

        def maxsim(rows: Any, depths: list[int] = depths) -> Any:
            depths.append(len(rows))
            return np.arange(len(rows), dtype=np.float32)

        near = ScoredRows(np.linspace(0.9, 0.1, depth, dtype=np.float32), np.arange(depth))
        words = ScoredRows(np.linspace(0.5, 0.1, depth, dtype=np.float32), np.arange(depth, 2 * depth))
        ranking = fuse(near, words, lambda rows: np.full(len(rows), 0.1, np.float32), maxsim, query)
        assert depths == [compared]
        assert (~np.isnan(ranking.columns["tokens"])).sum() == compared
        scores = ranking.scores_of(range(2 * depth))
        assert sum(each["lexical"] is not None for each in scores) == depth
        assert all(each["dense"] is not None for each in scores)


def test_a_page_of_an_address_comes_before_other_candidates_with_the_highest_score() -> None:
    def ranking(rows: list[int], scores: list[float]) -> Ranking:
        return Ranking(np.array(rows), np.array(scores, np.float32), {"dense": np.array(scores, np.float32)})

    for best, highest in ((0.75, 0.75), (0.25, 0.5)):
        joined = ranking([7, 8], [0.5, 0.25]).preceded_by(ranking([7], [best])) if best > 0.5 else None
        joined = joined or ranking([7, 8], [0.5, 0.25]).preceded_by(ranking([8, 9], [best, 0.125]))
        assert joined.scores.tolist() == [highest] * (len(joined.rows) - 1) + [min(0.5, joined.scores[-1])]
        assert joined.first is None
    assert joined.rows.tolist() == [8, 9, 7]


@pytest.mark.parametrize(
    ("score", "first", "step"),
    [
        (0.5, None, None), (0.50000001, 2, None), (0.75, None, ("address", "the query is the address of its page")),
        (0.25, None, ("limit", "not reranked")), (0.25, 1, ("limit", "not reranked")),
        (0.25, 0, ("limit", "found later")),
    ],
)  # fmt: skip
def test_the_step_that_changed_a_score(score: float, first: int | None, step: tuple[str, str] | None) -> None:
    columns = {"fused": [0.5], "lexical": [0.0], "lexical_scaled": [0.0], "lexical_weight": [0.5]}
    columns |= {"dense": [0.5], "dense_scaled": [1.0], "dense_weight": [0.5]}
    arrays = {name: np.array(values, np.float32) for name, values in columns.items()}
    ranking = Ranking(np.array([4]), np.array([score], np.float32), arrays, first)
    why = explain(ranking, Choice([0], [3], {0: [1]}, {3: 2}, {0: {"1": 2, "2": 3}}), 0)
    assert [(each["name"], each["why"]) for each in why["steps"]] == ([step] if step else [])
    assert (why["rank"], why["candidates"], why["folded"], why["left_out"], why["tokens"]) == (1, 1, 3, 2, None)
    assert why["lexical"] == {"score": None, "rank": None, "scaled": 0.0, "weight": 0.5}
    assert why["dense"] == {"score": 0.5, "rank": 1, "scaled": 1.0, "weight": 0.5}
    assert why["weights"] == ""


def test_more_candidates_are_compared_only_for_want_of_hits() -> None:
    """Each second passage is a copy of the one before; three are compared for each hit, then four times as many."""

    def compared(k: int, limit: int) -> tuple[list[int], int, dict[int, int]]:
        documents = np.maximum(0, np.arange(48) - 29 if limit else np.arange(48))
        signatures = np.array([0b1111 << (place // 2 * 2) for place in range(48)], np.uint64)
        ranking = Ranking(np.arange(48), np.linspace(1, 0.5, 48, dtype=np.float32), {})
        choice = choose(ranking, RowFacts(documents, signatures), k=k, per_document=limit, editions=(), twins={})
        return choice.indices, sum(map(len, choice.folded.values())), choice.left_out

    for k in (1, 2, 3):
        assert compared(k, 0) == ([*range(0, 2 * k, 2)], 3 * k // 2, {})
    assert compared(2, 2) == ([0, 2], 3, {0: 1})
    assert compared(3, 2) == ([0, 2, 30], 18, {0: 13})


def test_the_reason_is_the_signal_that_moved_words_most() -> None:
    still = dict.fromkeys(SIGNALS, 0.0)
    more, less = (describe(still | {"near": logits}) for logits in (0.9, -0.9))
    assert more == "words count more, mostly because no passage is near"
    assert less == "words count less, mostly because the nearest passage is very near"
    assert [describe(still | {"near": each})[6:16] for each in (0.2, 0.19)] == ["count more", "and meanin"]
    assert describe(still | {"known": 2.0, "near": -0.9}).endswith("the model hardly knows the language")


@pytest.mark.parametrize(
    ("title", "text", "marked", "share"),
    [
        ("Rows", "an index", [], 0.5), ("Rows", "an index", [(3, 8)], 1.0), ("A", "an index", [(0, 8)], 0.5),
        ("A", "", [], 0.0),
    ],
)  # fmt: skip
def test_the_share_of_words_that_a_hit_has(title: str, text: str, marked: list[tuple[int, int]], share: float) -> None:
    hit: Any = SimpleNamespace(title=title, section="", text=text, highlights=marked, language="en")
    assert coverage([("row",), ("index", "indic")], hit) == share
    assert coverage([], hit) == 0.0


def test_a_build_says_what_language_the_model_does_not_know_and_a_search_what_follows(site: Site) -> None:
    greek = "Οι γάτες γουργουρίζουν όταν είναι ευχαριστημένες, και κοιμούνται όλη μέρα στον ήλιο."
    (site.source / "el.md").write_text(f"# Γάτες\n\n{greek}\n", encoding="utf-8")
    other = site.source.parent / "more.md"
    other.write_text("# Cats\n\nCats purr when they are content, and they sleep all day long in the sun.\n")
    sources, progress = [str(site.source), str(other)], Progress(io.StringIO(), quiet=True)
    report = build(sources, site.index, DummyEmbedder(), BuildConfig(), progress=progress)
    assert (
        "the model does not know Greek (20 % of passages): matching words decide the ranking; --model" in report.table()
    )
    assert {each["language"] for each in report.as_dict()["languages"]} >= {"el", "en"}
    again = build(sources, site.index, DummyEmbedder(), BuildConfig(), progress=progress)
    assert (again.published, again.unknown, again.languages) == (False, report.unknown, report.languages)
    less = remove_sources([str(other)], site.index, keep_generations=2, progress=progress)
    assert less.published
    assert "Greek (25 % of passages)" in less.unknown
    retriever = Retriever(Generation.open(site.index), DummyEmbedder())
    for query, why in (("γάτες", "words count more"), ("vacuum reclaims", "words count less")):
        [hit, *_] = retriever.answer_query(SearchRequest(query, explain=True)).hits
        assert dict(explanation_lines(hit.explanation))["Weights"].startswith(why)


def test_code_is_recognised_by_its_calls() -> None:
    prose = "Vacuum reclaims the storage of rows (dead ones) that no one sees. " * 20
    assert share_of_code([prose, f"{prose} See vacuum()."]) < 0.01
    assert share_of_code(["def paste(xsel):\n    return open(path).read()", "x"]) > 0.05
    assert share_of_code(["f(a) b c", "d"]) == 1 / 4
    assert [share_of_code(texts) for texts in ([], [""], [" "], ["a"])] == [0] * 4
