import sys
import threading

import pytest

from indexer.config import BuildConfig, ChunkConfig
from indexer.errors import IndexMissing
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag import deadline
from rag.errors import DeadlinePassed, FingerprintMismatch, QueryError
from rag.query.request import Limits, SearchRequest
from rag.query.results import as_text
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder


@pytest.fixture
def retriever(site):
    site.build()
    return Retriever.open(site.index, DummyEmbedder(), Limits())


def test_the_right_passage_is_first(retriever):
    answer = retriever.answer_query(SearchRequest("partial index of a table", k=2))
    assert [hit.rank for hit in answer.hits] == [1, 2]
    best = answer.hits[0]
    assert best.title == "Partial indexes"
    assert best.url.endswith("partial.md#partial-indexes")
    assert [best.text[a:b] for a, b in best.highlights] == ["partial", "index", "table"]
    assert best.score == 1.0 > answer.hits[1].score  # best by meaning and by words
    assert best.scores["dense"] > answer.hits[1].scores["dense"]
    assert best.scores["lexical"] > 0
    assert answer.hits[1].scores["lexical"] is None
    assert answer.generation == retriever.generation.manifest.id


def test_every_stage_is_timed(retriever):
    took = retriever.answer_query(SearchRequest("vacuum")).took_ms
    assert list(took) == ["embed", "dense", "lexical", "fuse", "rerank", "sentences", "total"]
    assert took["total"] >= took["embed"] + took["dense"] - 0.002


@pytest.mark.parametrize("takes_long", [False, True])
def test_words_are_searched_apart_only_where_that_takes_long(retriever, monkeypatch, takes_long):
    monkeypatch.setattr(type(retriever.generation), "terms_take_long", takes_long)
    threads = []
    search_terms = retriever.generation.search_terms

    def spy(*args):
        threads.append(threading.current_thread())
        return search_terms(*args)

    wanted = retriever.answer_query(SearchRequest("partial index of a table")).hits
    monkeypatch.setattr(retriever.generation, "search_terms", spy)
    assert retriever.answer_query(SearchRequest("partial index of a table")).hits == wanted
    assert [thread is not threading.current_thread() for thread in threads] == [takes_long]


def test_as_dict_is_the_rest_body(retriever):
    body = retriever.answer_query(SearchRequest("fsync", k=1)).as_dict()
    assert set(body) == {
        "query", "hits", "next", "facets", "also_searched", "did_you_mean", "required", "excluded", "close", "reranked",
        "took_ms", "generation", "search_id",
    }  # fmt: skip
    assert set(body["hits"][0]) == {
        "rank", "id", "url", "title", "section", "text", "highlights", "score", "scores",
        "language", "date", "content_type", "metadata", "duplicates", "section_text",
        "document", "sentence", "more", "explanation",
    }  # fmt: skip
    assert "Durability" in as_text(body)


@pytest.mark.parametrize(("mode", "silent"), [("dense", "lexical"), ("lexical", "dense")])
def test_one_search_alone(retriever, mode, silent):
    hits = retriever.answer_query(SearchRequest("dead tuples", k=3, mode=mode)).hits
    assert hits[0].title == "Vacuum"
    assert all(hit.scores[silent] is None and hit.score == hit.scores[mode] for hit in hits)
    assert len(hits) == (3 if mode == "dense" else 1)  # only one has the words


def test_words_that_are_nowhere(retriever):
    assert retriever.answer_query(SearchRequest("zebra", mode="lexical")).hits == []
    assert len(retriever.answer_query(SearchRequest("zebra")).hits) == 3  # some are nearest all the same


def test_copies_give_way_to_other_passages(site):
    text = "Vacuum reclaims the storage that dead tuples occupy, so that other rows may use it."
    for number in range(150):  # more than there are candidates at first
        (site.source / f"copy{number}.txt").write_text(f"{text} {'.' * number}", encoding="utf-8")
    site.build()
    hits = (
        Retriever.open(site.index, DummyEmbedder()).answer_query(SearchRequest("dead tuples storage vacuum", k=4)).hits
    )
    assert len(hits) == 4
    assert sum(hit.text.startswith(text) for hit in hits) == 1
    copied = next(hit for hit in hits if hit.text.startswith(text))
    assert len(copied.duplicates) == 10
    assert all("copy" in url for url in copied.duplicates)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"query": " \t\n"}, "query must be text of 1 to 10000 characters with something"),
        ({"query": "\ud800"}, "half of a surrogate pair"),
        ({"query": "x", "k": 0}, "k must be a whole number from 1 to 100"),
        ({"query": "x", "expand": "all"}, "expand must be one of: none, section"),
    ],
)
def test_bad_queries_are_told(retriever, arguments, told):
    with pytest.raises(QueryError, match=told):
        retriever.answer_query(SearchRequest(**arguments))


@pytest.mark.parametrize("query", ["🙂", "' OR 1=1 --", "a" * 200])
def test_odd_queries_are_answered(retriever, query):
    assert retriever.answer_query(SearchRequest(query, k=1)).hits


def test_an_index_of_another_model_is_refused_by_field(site):
    site.build(DummyEmbedder(name="other"))
    with pytest.raises(FingerprintMismatch, match="model: index 'other', here 'dummy'"):
        Retriever.open(site.index, DummyEmbedder())


def test_no_index(tmp_path):
    with pytest.raises(IndexMissing, match="pilotlight index SOURCE"):
        Retriever.open(tmp_path, DummyEmbedder())


def test_a_hit_with_its_section(site):
    words = [f"word{i}" for i in range(120)]
    (site.source / "long.md").write_text(
        f"# Long\n\n{'Before. ' * 30}\n\n## Part\n\n{' '.join(words)}\n\n## Next\n\n{'After. ' * 30}\n"
    )
    config = BuildConfig(chunk=ChunkConfig(tokens=40))
    build([str(site.source)], site.index, DummyEmbedder(), config, progress=Progress(sys.stderr, "quiet"))
    retriever = Retriever.open(site.index, DummyEmbedder())
    [hit] = retriever.answer_query(SearchRequest("word50", k=1, mode="lexical", expand="section")).hits
    assert len(hit.text.split()) <= 40
    assert hit.section_text.split() == words
    assert retriever.answer_query(SearchRequest("word50", k=1, mode="lexical")).hits[0].section_text is None
    with pytest.raises(QueryError, match="expand must be one of: none, section"):
        retriever.answer_query(SearchRequest("word50", expand="all"))


class TestTokens:
    """An index that keeps tokens: the dummy's are words of chance, so each word shared counts."""

    @pytest.fixture
    def with_tokens(self, site):
        site.build(tokens=True)
        return Retriever.open(site.index, DummyEmbedder(), Limits())

    @pytest.mark.parametrize("mode", ["hybrid", "dense"])
    def test_they_are_part_of_the_score(self, retriever, with_tokens, mode):
        request = SearchRequest("which rows of a table", mode=mode)
        bare, both = retriever.answer_query(request).hits, with_tokens.answer_query(request).hits
        assert [hit.scores["tokens"] for hit in bare] == [None] * 3
        scores = [hit.scores["tokens"] for hit in both]
        assert both[0].title == "Partial indexes"
        assert max(scores) == scores[0] > scores[-1]
        assert {hit.title: hit.scores["dense"] for hit in bare} == {hit.title: hit.scores["dense"] for hit in both}

    def test_a_passed_deadline_ends_the_comparison(self, with_tokens, monkeypatch):
        def late(*asked):
            monkeypatch.setattr(deadline, "check", refuse)
            return search(*asked)

        def refuse():
            raise DeadlinePassed

        search = with_tokens.generation.search_vectors
        monkeypatch.setattr(with_tokens.generation, "search_vectors", late)
        with pytest.raises(DeadlinePassed):
            with_tokens.answer_query(SearchRequest("rows of a table"))
