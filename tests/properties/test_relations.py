"""Searches of one random collection that have to agree: filters, pages, spellings, orders, halves and updates."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.generation.generation import Generation
from indexer.generation.lexical.analysis import terms_in
from indexer.generation.manifest import collection_dir
from rag.query.request import MODES, Filter, SearchRequest
from rag.query.results import Answer, Hit
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.building import build_index
from tests.dummy import DummyEmbedder

WORDS = "harbour lantern anchor ladder barrel copper violet marble signal timber vessel garden window mirror".split()
PAGES = 36
QUERIES = 6  # of each test


def page(dice: random.Random, number: int) -> str:
    """Return a random page of one or two sections, which no other is like."""
    language = dice.choice(["en", "de"])
    lines = [f"---\nlanguage: {language}\nteam: {dice.choice(['core', 'docs'])}\n---\n# Page {number}\n"]
    for part in range(dice.randint(1, 2)):
        unique = " ".join(f"{dice.choice(WORDS)}{number}x{part}{place}" for place in range(8))
        lines.append(f"## Part {part}\n\n{' '.join(dice.choices(WORDS, k=dice.randint(4, 20)))} {unique}.\n")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def dice(pytestconfig: pytest.Config) -> random.Random:
    return random.Random(pytestconfig.option.seed)


@pytest.fixture(scope="module")
def live(dice: random.Random, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRetriever]:
    """Serve one collection, and the same made in other ways."""
    root = tmp_path_factory.mktemp("relations")
    pages = {f"{'ab'[number % 2]}/{number:02}.md": page(dice, number) for number in range(PAGES)}
    folders = [root / "pages" / "a", root / "pages" / "b"]

    def write(path: str, text: str) -> None:
        target = root / "pages" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def make(name: str, sources: list[Path], **more: Any) -> None:
        build_index(collection_dir(root / "index", name), *sources, tokens=True, allow_shrink=True, **more)

    for path in pages:  # what `updated` begins with: other texts, some pages that go, and some that are still to come
        if dice.random() < 0.6:
            write(path, page(dice, 100))
    write("a/gone.md", page(dice, 200))
    write("b/gone.md", page(dice, 201))
    make("updated", folders)
    for path, text in pages.items():
        write(path, text)
    for folder in folders:
        (folder / "gone.md").unlink()
    make("updated", folders)
    make("whole", folders)
    make("turned", folders[::-1])
    make("half-a", folders[:1])
    make("half-b", folders[1:])
    retriever = LiveRetriever(Follower(load({"index": str(root / "index")}, {}), lambda _: DummyEmbedder()))
    retriever.follower._refresh()
    retriever.follower.has_refreshed = True
    yield retriever
    retriever.close()


@pytest.fixture
def queries(dice: random.Random) -> list[str]:
    return [" ".join(dice.sample(WORDS, dice.randint(1, 4))) for _ in range(QUERIES)]


def search(live: LiveRetriever, query: str, **options: Any) -> Answer:
    where = {} if "collections" in options else {"collection": "whole"}
    return live.search(SearchRequest(query, **{**where, "per_document": 0, **options}))


def shown(hits: list[Hit]) -> list[tuple[str, float]]:
    """Return passages with their scores, those of equal score in the order of their texts."""
    return sorted(((hit.text, round(hit.score, 4)) for hit in hits), key=lambda each: (-each[1], each[0]))


def assert_same(one: Answer, other: Answer, mode: str) -> None:
    """Compare hits, but for those that have the score of the last one: of these, others may be shown.

    What the parts of a hybrid score weigh follows from the ten best of each, of which ties decide: there, the scores of
    the parts are compared.
    """
    if mode == "hybrid":
        parts = [{hit.text: [*hit.scores.values()][:3] for hit in answer.hits} for answer in (one, other)]
        for text in parts[0].keys() & parts[1].keys():
            assert parts[0][text] == pytest.approx(parts[1][text], abs=2e-3)
        assert len(parts[0]) == len(parts[1])
        return
    for first, second in zip(shown(one.hits), shown(other.hits), strict=True):
        assert first[1] == pytest.approx(second[1], abs=2e-4)
    least = max(round(answer.hits[-1].score, 4) for answer in (one, other)) + 2e-4 if one.hits else 0.0
    texts = [{text for text, score in shown(answer.hits) if score > least} for answer in (one, other)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("other", ["updated", "turned"])
def test_however_a_collection_is_made(live: LiveRetriever, queries: list[str], mode: str, other: str) -> None:
    for query in queries:
        found = [search(live, query, mode=mode, k=100, collection=name) for name in ("whole", other)]
        assert_same(*found, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [{}, {"k": 3, "offset": 6}, {"filter": Filter(language=("de",)), "facets": True}, {"explain": True}],
    ids=["plain", "page", "filter", "explain"],
)
def test_halves_searched_as_one_are_the_whole(
    live: LiveRetriever, queries: list[str], mode: str, options: dict[str, Any]
) -> None:
    for query in (*queries, "harbuor anchr", '"copper violet" ladder -barrel', "zzz"):
        whole, joint = (
            search(live, query, mode=mode, **options, **where) for where in ({}, {"collections": ["half-b", "half-a"]})
        )
        assert_same(whole, joint, mode)
        for name in ("facets", "also_searched", "did_you_mean", "close", "next", "required", "excluded"):
            assert getattr(whole, name) == getattr(joint, name), name
        assert {hit.collection for hit in joint.hits} <= {"half-a", "half-b"}


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_only_takes_away(live: LiveRetriever, queries: list[str], mode: str) -> None:
    languages = [Filter(language=(each,)) for each in ("en", "de")]
    core = Filter(metadata=(("team", ("core",)),))
    for query in queries:
        everything = {hit.id: hit for hit in search(live, query, mode=mode, k=100).hits}
        parts = [search(live, query, mode=mode, k=100, filter=only).hits for only in languages]
        assert {hit.id for part in parts for hit in part} == everything.keys()
        assert all(hit.language == language for part, language in zip(parts, ("en", "de"), strict=True) for hit in part)
        both = {hit.id for hit in search(live, query, mode=mode, k=100, filter=languages[0] & core).hits}
        assert both == {hit.id for hit in parts[0] if hit.metadata["team"] in ("core", ["core"])}


@pytest.mark.parametrize("mode", MODES)
def test_pages_of_hits(live: LiveRetriever, queries: list[str], mode: str) -> None:
    for query in queries:
        fifty, five = (search(live, query, mode=mode, k=k).hits for k in (50, 5))
        assert [hit.id for hit in five] == [hit.id for hit in fifty[:5]]
        pages: list[Hit] = []
        answer = first = search(live, query, mode=mode, k=10)
        while True:
            assert answer.close == first.close
            assert [hit.rank for hit in answer.hits] == list(range(len(pages) + 1, len(pages) + len(answer.hits) + 1))
            pages += answer.hits
            if answer.next is None:
                break
            answer = search(live, query, mode=mode, k=10, offset=answer.next)
        assert [hit.id for hit in pages[:50]] == [hit.id for hit in fifty]
        assert len({hit.id for hit in pages}) == len(pages)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("spell", [str.upper, str.title, "  {}\n".format, "{}.".format, "{}?".format])
def test_spellings_of_a_query(live: LiveRetriever, queries: list[str], mode: str, spell: Any) -> None:
    for query in queries:
        plain, other = (search(live, each, mode=mode) for each in (query, spell(query)))
        if mode == "lexical":
            assert [(hit.id, hit.score) for hit in plain.hits] == [(hit.id, hit.score) for hit in other.hits]
            assert [hit.highlights for hit in plain.hits] == [hit.highlights for hit in other.hits]
        assert {hit.id for hit in search(live, query, mode=mode, k=100).hits} == {
            hit.id for hit in search(live, spell(query), mode=mode, k=100).hits
        }


def test_at_most_so_many_of_a_document(live: LiveRetriever, queries: list[str]) -> None:
    for query in queries:
        everything = search(live, query, k=100).hits
        one = search(live, query, k=100, per_document=1).hits
        best: dict[str, str] = {}
        for hit in everything:
            best.setdefault(hit.document, hit.id)
        assert [hit.id for hit in one] == [*best.values()]
        assert sum(hit.more for hit in one) == len(everything) - len(one)


def test_a_batch_gives_what_each_query_gives_alone(live: LiveRetriever, queries: list[str]) -> None:
    for query, embedded in zip(queries, live.embed_queries(queries), strict=True):
        request = SearchRequest(query, collection="whole")
        assert live.search(request, embedded).hits == live.search(request).hits


def test_facets_and_highlights(live: LiveRetriever, queries: list[str]) -> None:
    for query in queries:
        answer = search(live, query, k=100, facets=True)
        assert answer.facets
        documents = {hit.document: hit.language for hit in answer.hits}
        for share in answer.facets["language"]:
            assert share["count"] == [*documents.values()].count(share["value"])
        for hit in answer.hits:
            for start, end in hit.highlights:
                assert {*terms_in(hit.text[start:end], hit.language)} & {*terms_in(query, hit.language)}


def test_meaning_finds_what_is_nearest(live: LiveRetriever, queries: list[str]) -> None:
    """Every passage is compared by hand; where tokens are kept, MaxSim ranks what the cosine has found."""
    retriever = live.follower.collections["whole"].retriever
    assert retriever
    generation, embedder = retriever.generation, DummyEmbedder()
    assert isinstance(generation, Generation)
    rows = np.arange(generation.manifest.counts.chunks)
    for query in queries:
        vector = embedder.encode([query], role="query")[0]
        cosines = generation.vectors(rows) @ vector
        scores, found = generation.search_vectors(vector, 10)
        assert scores.tolist() == pytest.approx(sorted(cosines.tolist(), reverse=True)[:10], abs=2e-3)
        assert cosines[found].tolist() == pytest.approx(scores.tolist(), abs=2e-3)
