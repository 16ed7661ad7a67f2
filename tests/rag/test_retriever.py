import pytest

from indexer.errors import IndexMissing
from rag.errors import FingerprintMismatch, QueryError
from rag.results import as_text
from rag.retriever import Retriever
from tests.dummy import DummyEmbedder


@pytest.fixture
def retriever(site):
    site.build()
    return Retriever.open(site.index, DummyEmbedder(), max_k=50, max_query_chars=200)


def test_the_right_passage_is_first(retriever):
    answer = retriever.search("partial index of a table", k=2)
    assert [hit.rank for hit in answer.hits] == [1, 2]
    best = answer.hits[0]
    assert best.title == "Partial indexes"
    assert best.url.endswith("partial.md#partial-indexes")
    assert [best.text[a:b] for a, b in best.highlights] == ["partial", "index", "table"]
    assert best.score == best.scores["dense"] >= answer.hits[1].score
    assert answer.generation == retriever.generation.id


def test_every_stage_is_timed(retriever):
    took = retriever.search("vacuum").took_ms
    assert list(took) == ["embed", "dense", "lexical", "fuse", "total"]
    assert took["total"] >= took["embed"] + took["dense"] - 0.002


def test_as_dict_is_the_rest_body(retriever):
    body = retriever.search("fsync", k=1).as_dict()
    assert list(body) == ["query", "hits", "took_ms", "generation"]
    assert list(body["hits"][0]) == [
        "rank", "id", "url", "title", "section", "text", "highlights", "score", "scores",
    ]  # fmt: skip
    assert "Durability" in as_text(body)


def test_k_may_pass_the_number_of_passages(retriever):
    assert len(retriever.search("table", k=50).hits) == retriever.generation.chunk_count


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"query": ""}, "empty"),
        ({"query": " \t\n"}, "empty"),
        ({"query": "x" * 201}, "201 characters: at most 200"),
        ({"query": 7}, "must be text"),
        ({"query": "\ud800"}, "not valid Unicode"),
        ({"query": "x", "k": 0}, "from 1 to 50, not 0"),
        ({"query": "x", "k": 51}, "from 1 to 50, not 51"),
        ({"query": "x", "k": True}, "not True"),
        ({"query": "x", "k": "3"}, "not '3'"),
        ({"query": "x", "mode": "psychic"}, "mode must be one of dense"),
    ],
)
def test_bad_queries_are_told(retriever, arguments, told):
    with pytest.raises(QueryError, match=told):
        retriever.search(**arguments)


@pytest.mark.parametrize("query", ["\x00", "🙂", "' OR 1=1 --", "a" * 200])
def test_odd_queries_are_answered(retriever, query):
    assert retriever.search(query, k=1).hits


def test_an_index_of_another_model_is_refused_by_field(site):
    site.build(DummyEmbedder(name="other"))
    with pytest.raises(FingerprintMismatch, match="model: index 'other', here 'dummy'"):
        Retriever.open(site.index, DummyEmbedder())


def test_no_index(tmp_path):
    with pytest.raises(IndexMissing, match="pilotlight index SOURCE"):
        Retriever.open(tmp_path, DummyEmbedder())
