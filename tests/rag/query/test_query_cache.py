"""Repeated queries: remembered within a number of bytes, for one caller, and for one generation."""

import pytest
from msgspec.structs import replace

from rag.query.model_queue import ENTRY_OVERHEAD_BYTES, QueryCache, caller_name
from rag.query.request import SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import wait_for


@pytest.fixture
def caller():
    """Leave the name of the caller as it was."""
    token = caller_name.set("")
    yield caller_name.set
    caller_name.reset(token)


def test_the_values_used_last_are_kept_up_to_a_number_of_bytes(caller):
    cache = QueryCache(3 * (ENTRY_OVERHEAD_BYTES + 10))
    for name in "abc":
        cache.put(name, 10, "letters", name)
    assert cache.get("letters", "a") == "a"
    cache.put("d", 10, "letters", "d")
    assert [cache.get("letters", name) for name in "abcd"] == ["a", None, "c", "d"]
    cache.put("larger than all", 4 * ENTRY_OVERHEAD_BYTES, "letters", "e")
    cache.put("again", 10, "letters", "a")
    assert [cache.get("letters", name) for name in "acde"] == ["again", "c", "d", None]
    assert cache.get("digits", "a") is None


@pytest.mark.parametrize(("megabytes", "runs"), [(16, [1, 1, 1, 2]), (0, [1, 2, 3, 4])])
def test_a_repeated_query_is_worked_out_once_for_each_caller(site, caller, megabytes, runs):
    site.build()
    embedder, lookups = DummyEmbedder(), []
    settings = load({"index": str(site.index), "query_cache": str(megabytes)}, {})
    live = LiveRetriever(Follower(settings, lambda settings: embedder))
    live.follower.cache.on_lookup = lambda kind, found: lookups.append((kind, found))
    live.start()
    wait_for(lambda: live.ready)
    lookups.clear()
    before, request = embedder.encoded, SearchRequest("dead tuples", k=2)
    first = live.search(request)
    counts, again = [embedder.encoded - before], []
    # the same, another page of it, and another caller
    for name, asked in [("", request), ("", SearchRequest("dead tuples", k=2, offset=1)), ("key", request)]:
        caller(name)
        again.append(live.search(asked))
        counts.append(embedder.encoded - before)
    live.close()
    assert counts == runs
    assert replace(again[0], took_ms={}) == replace(again[2], took_ms={}) == replace(first, took_ms={})
    assert again[1].hits[0].id == first.hits[1].id
    missed = [("answers", False), ("vectors", False)]
    expected = [*missed, ("answers", True), ("answers", False), ("vectors", True), *missed]
    assert lookups == (expected if megabytes else [])


def test_an_answer_ends_with_its_generation(site, live):
    site.build()
    live.start()
    wait_for(lambda: live.ready)
    assert live.search(SearchRequest("vacuum", k=1)).hits[0].title == "Vacuum"
    (site.source / "vacuum.md").write_text("# Cleaning\n\nVacuum reclaims the storage that dead tuples occupy.\n")
    generation = site.build()
    wait_for(lambda: live.search(SearchRequest("vacuum", k=1)).generation == generation)
    assert live.search(SearchRequest("vacuum", k=1)).hits[0].title == "Cleaning"
