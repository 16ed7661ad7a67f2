"""The REST API over both stores: equal answers, and problems in time where a store does not answer."""

import random
from contextlib import closing

import pytest

from rag.serving.live import LiveRetriever
from rag.serving.store_access import Publisher, milvus_at
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for
from web.app import create_app

WORDS = [f"{first}{second}" for first in ("va", "tu", "in", "lo", "que", "pla") for second in "bcdfgklmnprst"]
QUERIES = ("vab tuc ind", "lon", '"plat plas" inf', "the quet and the quer", "tus lot")
SEARCHES = [
    {"mode": "hybrid"},
    {"mode": "dense"},
    {"mode": "lexical"},
    {"k": 30, "per_document": 1},
    {"k": 5, "offset": 5},
    {"diversity": 0.5},
    {"expand": "section"},
    {"facets": True, "filter": {"content_type": ["text/markdown"]}},
    {"filter": {"url_prefix": ["file:///"]}},
    {"filter": {"content_type": ["text/html"]}, "mode": "lexical"},
]


@pytest.fixture(scope="module")
def site(milvus, tmp_path_factory):
    """An index of forty documents, which is in Milvus too."""
    site = Site(tmp_path_factory.mktemp("site"))
    chance = random.Random(7)
    for number in range(40):
        words = chance.choices(WORDS, range(1, len(WORDS) + 1), k=chance.randint(20, 60))
        text = f"# Page {number}\n\n{' '.join(words)}.\n\n## {words[3]} and {words[5]}\n\n{' '.join(words[::-2])}.\n"
        (site.source / f"page{number}.{'md' if number % 3 else 'html'}").write_text(text)
    site.build()
    with closing(milvus_at(milvus.place("docs"))) as store:
        Publisher(store, keep=2, quiet=True)(site.index)
    return site


@pytest.fixture
def client_of(site):
    """Make clients of servers with other settings."""
    started = []

    def make(**values):
        settings = load({"index": str(site.index), **values}, {})
        live = LiveRetriever(settings, lambda settings: DummyEmbedder())
        live.start()
        started.append(live)
        return create_app(live, settings).test_client()

    yield make
    for live in started:
        live.close()


def ready(client):
    wait_for(lambda: client.get("/readyz").status_code == 200)


def without_scores(hits):
    """Hits by their id; how BM25 counts lengths differs a little between the stores, and ranks with it."""
    left_out = {"rank", "score", "scores"}
    return {hit["id"]: {name: value for name, value in hit.items() if name not in left_out} for hit in hits}


def test_both_stores_give_the_same_answers(client_of, milvus):
    folder, remote = client_of(), client_of(store=milvus.place("docs"))
    ready(folder)
    ready(remote)
    shares = []
    for asked in SEARCHES:
        for query in QUERIES:
            answers = [client.post("/api/v1/search", json={"query": query, **asked}) for client in (folder, remote)]
            assert [answer.status_code for answer in answers] == [200, 200]
            ours, theirs = (answer.get_json() for answer in answers)
            assert (ours["generation"], ours["next"]) == (theirs["generation"], theirs["next"])
            assert len(ours["hits"]) == len(theirs["hits"]), (query, asked)
            here, there = without_scores(ours["hits"]), without_scores(theirs["hits"])
            if asked.get("mode") == "dense":  # among equal ones, any order will do
                cosines = [[hit["scores"]["dense"] for hit in answer["hits"]] for answer in (ours, theirs)]
                assert cosines[0] == pytest.approx(cosines[1], abs=1e-3)
            shared = here.keys() & there.keys()
            assert [here[id] for id in shared] == [there[id] for id in shared]
            shares.append(len(shared) / max(1, len(here)))
    assert sum(shares) / len(shares) >= 0.95, shares
    hits = folder.post("/api/v1/search", json={"query": "vab"}).get_json()["hits"]
    for address in (f"/api/v1/documents/{hits[0]['document']}", "/api/v1/documents", "/readyz"):
        assert folder.get(address).get_data() == remote.get(address).get_data(), address
    assert [client.get("/api/v1/documents/unknown").status_code for client in (folder, remote)] == [404, 404]
    assert remote.get("/status").status_code == remote.get("/?q=vab").status_code == 200
