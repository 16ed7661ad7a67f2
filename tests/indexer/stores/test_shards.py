"""Shards answer as one index of the same passages does, hit by hit."""

import random
import shutil
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from indexer.build.build import build
from indexer.build.progress import Progress
from indexer.config import BuildConfig, ChunkConfig
from indexer.errors import IndexCorrupt, IndexMissing, PartsDiffer, StoreAddressError, StoreConflict
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.stores.digest import digest_of
from indexer.stores.folder_store import FolderStore
from indexer.stores.shards import sharded_generation
from indexer.stores.shards.shard_store import ShardStore
from indexer.stores.shards.sharded_generation import ShardedGeneration
from rag.commands.transfer import copying
from rag.query import retriever
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever
from rag.serving.live import LiveRetriever
from rag.serving.store_access import store_at, verify_generation
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for

WORDS = [f"{a}{b}{c}" for a in ("ba", "ko", "mi", "tu") for b in ("len", "rat", "sol") for c in ("", "ing", "er", "ix")]
QUESTIONS = (
    "balen koratix",
    "misoling tusoler barating",
    '"balen koler" tusol',
    "korating -balen",
    "title:balen",
    "balenn kosolixx",  # corrected
    "the balen of it " * 5,
)


def write_pages(folder, seed, documents):
    rng = random.Random(seed)
    for number in range(documents):
        (folder / f"part{number % 3}").mkdir(parents=True, exist_ok=True)
        words = [" ".join(rng.choices(WORDS, rng.choices(range(1, 49), k=48), k=rng.randint(5, 120))) for _ in range(3)]
        language = rng.choice(["en", "en", "en", "de"])
        head = f"---\nlang: {language}\ndate: 202{number % 5}-01-01\ntags: [t{number % 4}]\n---\n"
        name = " ".join(rng.choices(WORDS, k=2))
        text = f"{head}# {name} {number}\n\n{words[0]}\n\n## {words[1][:40]}\n\n{words[1]}\n\n## More\n\n{words[2]}\n"
        (folder / f"part{number % 3}" / f"page{number}.md").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module", params=[0])
def whole(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    write_pages(root / "docs", request.param, 50)
    return index_of(root)


def index_of(root):
    config = BuildConfig(chunk=ChunkConfig(60, 8), tokens=True)
    quiet = Progress(sys.stderr, "quiet")
    build([str(root / "docs")], root / "index", DummyEmbedder(), config, progress=quiet)
    return FolderStore(root / "index")


@pytest.fixture(scope="module")
def shards(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    store = ShardStore([folder / name for name in "abcd"])
    copy(whole, store)
    return store


def copy(source, target):
    copying.copy(source, target, keep=2, step=lambda _: None)


@pytest.fixture(scope="module")
def both(whole, shards):
    with closing(whole.open()) as one, closing(shards.open()) as many:
        yield one, many


def ids(generation, rows):
    return [chunk.id for chunk in generation.chunks(rows)]


def test_parts_share_the_passages(both):
    one, many = both
    assert (many.id, many.chunk_count, many.document_count) == (one.id, one.chunk_count, one.document_count)
    assert all(0 < part.chunk_count < one.chunk_count for part in many.parts)
    assert sorted(map(str, one.documents())) == sorted(map(str, many.documents()))
    [document, *_] = one.documents()
    assert many.document(document["id"]) == document
    assert many.facts_by_id(document["id"]) == one.facts_by_id(document["id"])
    assert many.document("0" * 32) is many.facts_by_id("0" * 32) is None


@pytest.mark.parametrize("question", QUESTIONS)
def test_words_score_as_in_one_index(both, question):
    one, many = both
    asked, again = one.read_query(question), many.read_query(question)
    assert asked == again
    for only in (None, Filter.parse({"language": "de"}), Filter.parse({"metadata": {"tags": ["t1", "t3"]}})):
        (scores, rows), (found_scores, found) = one.search_words(asked, 500, only), many.search_words(again, 500, only)
        assert dict(zip(ids(one, rows), scores.tolist(), strict=True)) == dict(
            zip(ids(many, found), found_scores.tolist(), strict=True)
        )
    assert one.idf_sum(asked) == many.idf_sum(again)


def test_common_words_are_added_to_what_rare_ones_found(both, monkeypatch):
    from indexer.generation.lexical import lexical_index

    one, many = both
    monkeypatch.setattr(lexical_index, "_POSTINGS", 20)
    asked = one.read_query(" ".join(WORDS[::5]))
    (scores, rows), (found_scores, found) = one.search_words(asked, 30), many.search_words(asked, 30)
    np.testing.assert_array_equal(scores, found_scores)
    assert len(found) == 30
    assert dict(zip(ids(one, rows), scores, strict=True)).keys() == set(ids(many, found))


@pytest.mark.parametrize("at_once", [False, True])
def test_vectors_score_as_in_one_index(whole, shards, monkeypatch, at_once):
    if at_once:
        monkeypatch.setattr(sharded_generation, "LARGE_PART", 1)
        monkeypatch.setattr(sharded_generation.os, "sched_getaffinity", lambda _: {0, 1})
    with closing(whole.open()) as one, closing(shards.open()) as many:
        assert (many._pool is not None) == at_once
        for vector in DummyEmbedder().encode(WORDS[:5]):
            for only in (None, Filter.parse({"date": {"from": "2022-01-01"}}), Filter.parse({"language": "fr"})):
                allowed = [each.select(only) if only else None for each in (one, many)]
                scores, _ = one.search(vector, 40, allowed[0])
                found_scores, found = many.search(vector, 40, allowed[1])
                np.testing.assert_allclose(found_scores, scores, atol=1e-6)
                np.testing.assert_allclose(many.vectors(found) @ vector, found_scores, atol=1e-6)
                if only:
                    assert many.matches(found, only).all()
            bound = [each.within(each.read_query("korating -balen")) for each in (one, many)]
            assert set(ids(one, one.search(vector, 500, bound[0])[1])) == set(
                ids(many, many.search(vector, 500, bound[1])[1])
            )


def test_the_same_documents_are_allowed(both):
    one, many = both
    for only in (Filter.parse({"language": "fr"}), Filter.parse({"language": "en"}) & Filter.parse({"language": "fr"})):
        allowed = [{found["id"] for found in each.documents() if each.allows(found["id"], only)} for each in both]
        assert allowed[0] == allowed[1]
        assert not many.allows("0" * 32, only)
    assert not allowed[0]
    assert one.document_count == many.document_count


def test_rows_tell_the_same(both):
    one, many = both
    places = {id: row for row, id in enumerate(ids(one, np.arange(one.chunk_count)))}
    rows = np.random.default_rng(0).permutation(many.chunk_count)
    there = np.array([places[id] for id in ids(many, rows)])
    assert many.chunks(rows) == one.chunks(there)
    assert (many.vectors(rows) == one.vectors(there)).all()
    assert (many.repetition(rows).shape, many.dates(rows)) == (rows.shape, one.dates(there))
    assert (many.rows_of(rows)["signature"] == one.rows_of(there)["signature"]).all()
    numbers, others = many.rows_of(rows)["document"].tolist(), one.rows_of(there)["document"].tolist()
    assert len(set(numbers)) == len(set(others)) == len(set(zip(numbers, others, strict=True))) == one.document_count
    assert sorted(many.facts(numbers[:20])) == sorted(one.facts(others[:20]))
    assert [many.section(row) for row in rows[:20].tolist()] == [one.section(row) for row in there[:20].tolist()]
    with pytest.raises(IndexCorrupt, match="no chunk"):
        many.chunks(np.array([many.chunk_count]))


def test_tokens_are_those_of_their_passages(both):
    one, many = both
    assert one.tokens is not None
    rows = np.random.default_rng(1).permutation(many.chunk_count)[:50]
    places = {id: row for row, id in enumerate(ids(one, np.arange(one.chunk_count)))}
    there = np.array([places[id] for id in ids(many, rows)])

    def tokens(generation, asked):
        signs, starts, counts = generation.tokens.gather(asked)
        return [signs[start : start + count].tolist() for start, count in zip(starts, counts, strict=True)]

    assert tokens(many, rows) == tokens(one, there)


@pytest.mark.parametrize("options", [
    {},
    {"mode": "dense"},
    {"mode": "lexical", "facets": True},
    {"filter": Filter.parse({"language": "de"}), "facets": True, "per_document": 2},
    {"offset": 10, "expand": "section", "explain": True},
], ids=str)  # fmt: skip
def test_a_whole_search_answers_the_same(both, options, monkeypatch):
    for kind in (Generation, ShardedGeneration):  # what repeats is counted in each part by itself
        monkeypatch.setattr(kind, "repetition", lambda _, rows: np.zeros(len(rows), np.uint8))
    monkeypatch.setattr(retriever, "CANDIDATES", 1000)  # all: which of those that tie are candidates is not said
    one, many = (Retriever(generation, DummyEmbedder()) for generation in both)
    for question in QUESTIONS:
        answers = [each.search(SearchRequest(question, k=10, **options)) for each in (one, many)]
        scores = [[hit.score for hit in answer.hits] for answer in answers]
        if "facets" in options:
            assert answers[0].facets == answers[1].facets
        assert scores[0] == pytest.approx(scores[1], abs=2e-5)
        texts = [{hit.text for hit in answer.hits if hit.score > scores[0][-1] + 1e-4} for answer in answers]
        assert texts[0] == texts[1]  # of those that tie for the last place, any may be shown
        assert answers[0].generation == answers[1].generation
        assert answers[0].also_searched == answers[1].also_searched
        if {hit.text for hit in answers[0].hits} == {hit.text for hit in answers[1].hits}:
            assert answers[0].close == answers[1].close


def test_shards_are_put_together_again(whole, shards, tmp_path):
    back = FolderStore(tmp_path / "back")
    copy(shards, back)
    divided = ShardStore([tmp_path / "x", tmp_path / "y"])
    copy(back, divided)
    with closing(back.read()) as first, closing(divided.read()) as second, closing(whole.read()) as source:
        assert (first.manifest.counts, second.manifest.counts) == (source.manifest.counts,) * 2
        assert len(list(second.pages())) == len(list(source.pages()))
    copy(divided, again := FolderStore(tmp_path / "again"))
    with closing(again.read()) as third, closing(divided.read()) as second:
        assert digest_of(third) == digest_of(second)
    assert all(check.ok for check in verify_generation(divided, divided.live_id()))


def test_parts_that_are_built_by_themselves(tmp_path, monkeypatch):
    for part in "ab":
        write_pages(tmp_path / part / "docs", part, 6)
        index_of(tmp_path / part)
    store = store_at(f"shards:{tmp_path}/a/index, {tmp_path}/b/index")
    first = store.live_id()
    assert (store.ids(), [each.documents for each in store.published()]) == ([first], [12])
    with closing(store.open()) as before:
        kept = before.parts
        write_pages(tmp_path / "b" / "docs", "b", 7)
        index_of(tmp_path / "b")
        second = store.live_id()
        assert first < second or first.partition("-")[0] == second.partition("-")[0]
        assert second != first
        with closing(store.open()) as after:
            assert (after.document_count, before.document_count) == (13, 12)
            assert after.parts[0] is kept[0]  # neither read nor checked again
            assert after.manifest.sources == [f"{tmp_path}/a/docs", f"{tmp_path}/b/docs"]
            assert len(list(after.documents())) == 13
        assert before.search_words(before.read_query("balen"), 3)
    with pytest.raises(IndexMissing, match="not every part"):
        store.open(first)
    assert len(verify_generation(store, second)) % 2 == 0


def test_a_server_follows_every_part_and_looks_after_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    sites = []
    for part in "ab":
        (tmp_path / part).mkdir()
        sites.append(Site(tmp_path / part))
        sites[-1].build()
    place = f"shards:{sites[0].index},{sites[1].index}"
    live = LiveRetriever(load({"index": str(tmp_path / "none"), "store": place}, {}), lambda _: DummyEmbedder())
    with closing(live):
        live.start()
        wait_for(lambda: live.ready)
        first = live.status()
        assert (first["documents"], live.search(SearchRequest("dead tuples", k=1)).hits[0].title) == (6, "Vacuum")
        (sites[1].source / "new.md").write_text("# Analyze\n\nAnalyze gathers statistics of tables.\n")
        newer = sites[1].build()
        wait_for(lambda: live.status()["generation"] != first["generation"])
        assert (live.status()["documents"], live.search(SearchRequest("statistics", k=1)).hits[0].title) == (
            7,
            "Analyze",
        )
        with (sites[1].index / "generations" / newer / "documents.sqlite").open("r+b") as file:
            file.truncate(100)
        wait_for(lambda: not live.ready)
        assert f"{newer}/documents.sqlite: has 100 bytes instead of" in live.status()["reason"]


def test_a_document_of_two_parts_is_found_and_not_copied(tmp_path):
    for part in "ab":
        (tmp_path / part).mkdir()
        site = Site(tmp_path / part)
        site.source = tmp_path / "a" / "source"
        site.build()
    store = ShardStore([tmp_path / part / "index" for part in "ab"])
    with closing(store.open()) as generation:
        answer = Retriever(generation, DummyEmbedder()).search(SearchRequest("dead tuples", k=10))
        assert len({hit.text for hit in answer.hits}) == len(answer.hits)
    with pytest.raises(PartsDiffer, match=r"\.md is a document of two parts"):
        copy(store, FolderStore(tmp_path / "one"))


def test_what_cannot_be_one(whole, tmp_path):
    shutil.copytree(whole.folder, tmp_path / "copy")
    with pytest.raises(PartsDiffer, match="there twice, or a copy"):
        ShardStore([whole.folder, tmp_path / "copy"]).open()
    with closing(whole.read()) as reading:
        other = FolderStore(tmp_path / "other")
        changed = replace(reading.manifest, fingerprint=reading.manifest.fingerprint | {"precision": "int8"})
        other.write(changed, reading.entries())
        other.make_live(changed.id)
    store = ShardStore([whole.folder, other.folder])
    for use in (store.open, store.read):
        with pytest.raises(PartsDiffer, match=r"different embedders \(precision\)"):
            use()
    with pytest.raises(IndexMissing):
        ShardStore([whole.folder, tmp_path / "nothing"]).open()
    for wrong in ("shards:", "shards:a,,b", "shards:a,a", "shards:a,./a"):
        with pytest.raises(StoreAddressError, match="names no parts"):
            store_at(wrong)


def test_a_part_that_is_written_as_a_whole_is_not_changed_while_it_is_live(whole, shards):
    with closing(whole.read()) as reading, pytest.raises(StoreConflict, match="live"):
        shards.write(reading.manifest, reading.entries())
    with pytest.raises(StoreConflict, match="live"):
        shards.remove(shards.live_id())
    shards.keep(1)
    assert shards.ids() == [whole.live_id()]


def test_what_is_not_seen_changes_no_answer(whole, shards, tmp_path):
    """An answer to who sees the German documents is that of an index which has no others, nor their stems."""
    seen = Filter.parse({"language": "de"})
    for path in (whole.folder.parent / "docs").rglob("*.md"):
        if "lang: de" in (text := path.read_text(encoding="utf-8")):
            page = tmp_path / "docs" / path.relative_to(whole.folder.parent / "docs")
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    found = []
    for store in (index_of(tmp_path), whole, shards):
        with closing(store.open()) as generation:
            searching = Retriever(generation, DummyEmbedder())
            asked = [
                SearchRequest(question, k=10, mode=mode) for question in QUESTIONS for mode in ("hybrid", "lexical")
            ]
            answers = [searching.search(each, seen=seen) for each in asked]
            found.append(
                [
                    (answer.did_you_mean, answer.close, sorted((hit.score, hit.text) for hit in answer.hits))
                    for answer in answers
                ]
            )
    assert any(answer[2] for answer in found[0])
    assert found[1] == found[0]
    assert found[2] == found[0]
