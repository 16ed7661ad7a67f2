"""Answers page by page, and what is told about all of them."""

import pytest

from rag.query.request import FURTHEST, SearchRequest
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


@pytest.fixture
def retriever(site):
    for number in range(260):
        words = " ".join(WORDS[place % 10] * (1 + place % 3) for place in range(number, number + 7))
        (site.source / f"page{number:03}.txt").write_text(f"Vacuum number {number} {words}\n", encoding="utf-8")
    for number in range(120):
        (site.source / f"copy{number}.txt").write_text(f"vacuum alpha beta {'.' * number}\n", encoding="utf-8")
    site.build()
    return Retriever.open(site.index, DummyEmbedder())


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "dense"}, {"mode": "lexical"}, {"diversity": 0.5}, {"per_document": 1}],
    ids=["hybrid", "dense", "lexical", "diversity", "per_document"],
)
def test_pages_make_up_the_whole(retriever, options):
    hits, offset, pages = [], 0, 0
    while offset is not None and pages < 12:
        page = retriever.answer_query(SearchRequest("vacuum alpha beta", k=20, offset=offset, **options))
        assert [hit.rank for hit in page.hits] == list(range(offset + 1, offset + 1 + len(page.hits)))
        assert page.next in (offset + 20, None)
        hits += page.hits
        offset, pages = page.next, pages + 1
    assert len(hits) > 200
    assert len({hit.id for hit in hits}) == len(hits)
    if "diversity" not in options:
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_last_page_says_so(retriever):
    page = retriever.answer_query(SearchRequest("vacuum", k=100, offset=200, filter=None))
    while page.next is not None:
        page = retriever.answer_query(SearchRequest("vacuum", k=100, offset=page.next))
    assert len(page.hits) < 100
    assert retriever.answer_query(SearchRequest("vacuum", k=10, offset=FURTHEST)).hits == []
    assert retriever.answer_query(SearchRequest("zebra", mode="lexical")).next is None


@pytest.mark.parametrize("offset", [0, 5, 40])
def test_a_page_is_fetched_at_once_and_judged_by_the_best_of_all(retriever, monkeypatch, offset):
    fetched, expanded = [], []
    chunks, section = retriever.generation.chunks, retriever.generation.section
    monkeypatch.setattr(retriever.generation, "chunks", lambda rows: fetched.append(len(rows)) or chunks(rows))
    monkeypatch.setattr(retriever.generation, "section", lambda row: expanded.append(row) or section(row))
    best = retriever.answer_query(SearchRequest("vacuum alpha beta", k=60, expand="section")).hits
    fetched.clear(), expanded.clear()
    judged = []
    monkeypatch.setattr("rag.query.hits.is_close", lambda query, hits, close: judged.extend(hits) or True)
    page = retriever.answer_query(SearchRequest("vacuum alpha beta", k=20, offset=offset, expand="section"))
    assert len(fetched) == 1
    assert len(expanded) == len(page.hits) == 20
    assert [hit.id for hit in page.hits] == [hit.id for hit in best[offset : offset + 20]]
    assert [hit.section_text for hit in page.hits] == [hit.section_text for hit in best[offset : offset + 20]]
    assert [hit.id for hit in judged] == [hit.id for hit in best[:10]]


def test_facets_count_documents(retriever):
    assert retriever.answer_query(SearchRequest("vacuum")).facets is None
    first = retriever.answer_query(SearchRequest("vacuum alpha", k=5, facets=True)).facets
    assert first == retriever.answer_query(SearchRequest("vacuum alpha", k=5, offset=5, facets=True)).facets
    [source] = first["source"]
    assert 50 < source["count"] <= 200
    assert {share["value"] for share in first["content_type"]} <= {"text/plain", "text/markdown"}


def test_sentences_are_told_where_no_word_matches(site):
    (site.source / "birds.md").write_text("# Birds\n\nSparrows sing at dawn. Owls hunt at night.\n", encoding="utf-8")
    site.build()
    retriever = Retriever.open(site.index, DummyEmbedder())
    hits = retriever.answer_query(SearchRequest("owls", k=4, sentences=True)).hits
    assert hits[0].highlights
    assert hits[0].sentence is None
    vector = retriever.embedder.encode(["owls hunt"], role="query")[0]
    hit = next(
        hit
        for hit in retriever.answer_query(SearchRequest("zebra", k=4, sentences=True), vector).hits
        if "Owls" in hit.text
    )
    assert hit.text[slice(*hit.sentence)] == "Owls hunt at night."
    assert all(hit.sentence is None for hit in retriever.answer_query(SearchRequest("zebra", k=4)).hits)


@pytest.mark.parametrize(("query", "embedded"), [("owls", 0), ("birds", 1 + 2)])
def test_a_search_by_words_embeds_only_where_a_hit_has_nothing_to_mark(site, query, embedded):
    text = "# Birds\n\nSparrows sing at dawn. Owls hunt at night.\n"
    (site.source / "birds.md").write_text(text, encoding="utf-8")
    site.build()
    retriever = Retriever.open(site.index, DummyEmbedder())
    answer = retriever.answer_query(SearchRequest(query, mode="lexical", sentences=True))
    [hit] = answer.hits
    assert bool(hit.highlights) is (embedded == 0)
    assert (hit.sentence is None) is (embedded == 0)
    assert (answer.took_ms["embed"] == 0) is (embedded == 0)
    assert retriever.embedder.encoded == embedded  # the query, and the sentences to choose from


def test_a_vector_spares_the_model(retriever):
    vector = retriever.embedder.encode(["vacuum alpha"], role="query")[0]
    before = retriever.embedder.encoded
    answer = retriever.answer_query(SearchRequest("vacuum alpha"), vector)
    assert retriever.embedder.encoded == before
    assert answer.hits == retriever.answer_query(SearchRequest("vacuum alpha")).hits
    assert answer.took_ms["embed"] == 0
