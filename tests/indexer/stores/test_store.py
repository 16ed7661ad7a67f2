"""What every store of generations promises: each test runs against the folder and against Milvus, unchanged."""

import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from indexer.config import BuildConfig
from indexer.errors import IndexCorrupt, IndexMissing, StoreConflict, VectorError
from indexer.filter import Filter
from indexer.generation.catalogue import document_id
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.stores.digest import digest_of
from indexer.stores.folder_store import FolderStore
from indexer.stores.milvus.milvus_store import MilvusStore
from indexer.stores.store import Store
from tests.dummy import DummyEmbedder

PAGES = {
    "guide/vacuum.md": "---\nlang: en\ndate: 2024-02-29\ntags: [storage, tuples]\n---\n# Vacuum\n\nVacuum reclaims "
    "the storage that dead tuples occupy.\n\n## Cost\n\n" + "A vacuum reads max_wal_size pages of a table. " * 30,
    "guide/fsync.md": "---\nlang: en\ndate: 2025-01-01\n---\n# Durability\n\nTurning fsync off risks data.\n",
    "de/müll.md": "---\nlang: de\naccess: {groups: [haus]}\n---\n# Müllabfuhr\n\n"
    "Über tote Tupel fährt der Müllwagen.\n",
    "ja/hi.md": "---\nlang: ja\ndate: 2024-06-01\n---\n# 火災\n\n東京都の火災報知器は不要なタプルを知らせる。\n",
    "hi/x.md": '# हिन्दी\n\nहिन्दी में लिखा "पाठ" और it\'s 0xcafe \\ tuples.\n',
}
QUERIES = (
    "dead tuples",
    '"dead tuples"',
    "tuples -storage",
    'vacuum -"dead tuples"',
    '"tuples dead"',
    '"reads max_wal_size" table',
    "max_wal_size",
    "MULLABFUHR",
    "火災報知器",
    "हिन्दी पाठ",
    "0xcafe",
    "the of and",
    "it's \\\" OR words) --",
    "?!",
)
FILTERS = (
    {"language": "de"},
    {"language": ["de", "ja"], "date": {"from": "2024-01-01"}},
    {"date": {"from": "2024-02-29", "to": "2024-12-31"}},
    {"date": {"to": "2024-12-31"}},
    {"metadata": {"tags": "tuples"}},
    {"metadata": {"tags": "no \"such] \\ tag'"}},
    {"content_type": "text/markdown"},
    {"content_type": "text/html"},
)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> FolderStore:
    """Two generations to publish: the newer one has a page more."""
    root = tmp_path_factory.mktemp("source")
    for place, (name, text) in enumerate(PAGES.items()):
        if place == len(PAGES) - 1:
            built(root)
        (root / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "docs" / name).write_text(text, encoding="utf-8")
    built(root)
    return FolderStore(root / "index")


@pytest.fixture(scope="module", params=["folder", "milvus"])
def make_ordered(request, tmp_path_factory):
    """Make a store with nothing in it, which keeps the order of documents."""
    return partial(made, request.param, request, tmp_path_factory)


@pytest.fixture(scope="module", params=["folder", "milvus"])
def make_store(request, tmp_path_factory):
    """Make a store with nothing in it."""
    return partial(made, request.param, request, tmp_path_factory)


def made(kind, request, tmp_path_factory) -> Store:
    if kind == "milvus":
        return MilvusStore.at(request.getfixturevalue("milvus").place(f"docs_{secrets.token_hex(4)}"))
    folder = tmp_path_factory.mktemp("store")
    return FolderStore(folder / "index")


@pytest.fixture
def store(make_store):
    with closing(make_store()) as store:
        yield store


@pytest.fixture(scope="module")
def opened(make_ordered, source):
    """A generation open in the source, and a copy of it open in the store."""
    with closing(make_ordered()) as store:
        published(source, store)
        with closing(source.open()) as theirs, closing(store.open()) as ours:
            yield theirs, ours


def built(root):
    config = BuildConfig(keep_generations=2)
    build([str(root / "docs")], root / "index", DummyEmbedder(), config, progress=Progress(sys.stderr, "quiet"))


def written(source, store, generation=None):
    with closing(source.read(generation)) as reading:
        store.write(reading.manifest, reading.entries(), reading.pages())
    return reading.manifest.id


def published(source, store, generation=None):
    store.make_live(id := written(source, store, generation))
    return id


def test_a_store_with_nothing_in_it(store):
    assert store.ids() == store.published() == []
    for use in (store.live_id, store.open, store.read):
        with pytest.raises(IndexMissing, match="index"):
            use()


def test_what_is_written_is_live_once_it_is_made_so(source, store):
    id = written(source, store)
    assert store.ids() == [id]
    with pytest.raises(IndexMissing):
        store.live_id()
    with closing(store.open(id)) as generation:
        assert (generation.id, generation.document_count) == (id, len(PAGES))
    store.make_live(id)
    assert store.live_id() == id
    [listed] = store.published()
    manifest = source.read().manifest
    assert (listed.live, listed.documents, listed.chunks) == (True, len(PAGES), manifest.counts.chunks)
    assert (listed.created_at, listed.problem) == (manifest.created_at, "")
    with closing(store.read()) as reading:
        assert replace(reading.manifest, files={}) == replace(manifest, files={})


def test_nothing_is_lost_on_the_way(source, store, tmp_path):
    written(source, store)
    back = FolderStore(tmp_path / "back")
    published(store, back, store.ids()[0])
    with closing(source.read()) as here, closing(store.read(store.ids()[0])) as there, closing(back.read()) as again:
        assert digest_of(here) == digest_of(there)
        assert digest_of(there) == digest_of(again)
        pages = [sorted(reading.pages(), key=lambda page: page.url) for reading in (here, there, again)]
        assert pages[0] == pages[1] == pages[2] != []


def test_a_digest_tells_generations_apart(source):
    digests = set()
    for id in source.ids():
        with closing(source.read(id)) as reading:
            digests.add(digest_of(reading))
    assert len(digests) == 2


def test_search_by_meaning(opened):
    theirs, ours = opened
    vector = DummyEmbedder().encode(["dead tuples of a table"])[0]
    for k in (1, 3, 100):
        (wanted, _), (scores, rows) = theirs.search(vector, k), ours.search(vector, k)
        np.testing.assert_allclose(scores, wanted, atol=1e-6)
        np.testing.assert_allclose(theirs.vectors(rows) @ vector, scores, atol=1e-6)
        assert len(set(rows.tolist())) == min(k, theirs.chunk_count)
    for wrong in (vector[:-1], vector * np.nan):
        with pytest.raises(VectorError):
            ours.search(wrong, 3)


@pytest.mark.parametrize("query", QUERIES)
def test_search_by_words(opened, query):
    theirs, ours = opened
    (wanted, wanted_rows), (scores, rows) = (
        theirs.search_words(theirs.read_query(query), 100),
        ours.search_words(ours.read_query(query), 100),
    )
    assert set(rows.tolist()) == set(wanted_rows.tolist())
    assert (np.diff(scores) <= 0).all()
    if '"' not in query:  # a phrase weighs otherwise in Milvus
        np.testing.assert_allclose(scores, wanted, rtol=0.05)  # which counts the words of a passage exactly


@pytest.mark.parametrize("query", ['"dead tuples"', "tuples -storage", 'storage "dead tuples" -fsync'])
def test_search_by_meaning_within_what_a_query_requires_and_excludes(opened, query):
    theirs, ours = opened
    vector = DummyEmbedder().encode(["dead tuples of a table"])[0]
    found = [one.search(vector, 100, one.within(one.read_query(query)))[1] for one in (theirs, ours)]
    assert set(found[1].tolist()) == set(found[0].tolist())
    assert 0 < len(found[0]) < theirs.chunk_count
    for one in (theirs, ours):
        only = Filter.parse({"language": "en"})
        rows = one.search(vector, 100, one.within(one.read_query(query), one.select(only)))[1]
        assert set(rows.tolist()) <= set(found[0].tolist())
        assert one.matches(rows, only).all()
        assert len(one.dates(rows)) == len(rows)


@pytest.mark.parametrize("fields", FILTERS, ids=str)
def test_filters(opened, fields):
    theirs, ours = opened
    only = Filter.parse(fields)
    vector = DummyEmbedder().encode(["tuples"])[0]
    allowed = set(theirs.select(only).rows().tolist())
    assert set(ours.search(vector, 100, ours.select(only))[1].tolist()) == allowed
    assert set(ours.search_words(ours.read_query("tuples 火災 vacuum fsync"), 100, only)[1].tolist()) <= allowed
    wanted = theirs.search_words(theirs.read_query("tuples 火災 vacuum fsync"), 100, only)[1]
    assert set(ours.search_words(ours.read_query("tuples 火災 vacuum fsync"), 100, only)[1].tolist()) == set(
        wanted.tolist()
    )


def test_filter_by_address(opened):
    theirs, ours = opened
    url = next(document["url"] for document in theirs.documents() if "fsync" in document["url"])
    for only in (Filter.parse({"url_prefix": url.rpartition("/")[0]}), Filter.parse({"url_prefix": url})):
        rows = theirs.select(only).rows()
        vector = DummyEmbedder().encode(["tuples"])[0]
        assert sorted(ours.search(vector, 100, ours.select(only))[1].tolist()) == rows.tolist() != []


BOTH = [
    ({"language": "en"}, {"content_type": "text/markdown"}),
    ({"date": {"from": "2020-01-01"}}, {"date": {"to": "2019-01-01"}}),  # no day is in both
    ({"language": "en"}, {"language": ["de", "fr", "ja"]}),
]


@pytest.mark.parametrize(("first", "second"), BOTH, ids=str)
def test_filters_within_filters(opened, first, second):
    theirs, ours = opened
    parts = [Filter.parse(first), Filter.parse(second)]
    wanted = set.intersection(*(set(theirs.select(part).rows().tolist()) for part in parts))
    only = parts[0] & parts[1]
    check_choice(theirs, ours, only, wanted)
    for one in (theirs, ours):
        assert {found["id"] for found in one.documents() if one.allows(found["id"], only)} == {
            found["id"] for found in one.documents() if all(one.allows(found["id"], part) for part in parts)
        }


def check_choice(theirs, ours, only, wanted):
    vector, query = DummyEmbedder().encode(["tuples"])[0], "tuples 火災 vacuum fsync"
    everything = theirs.search_words(theirs.read_query(query), 100)[1]
    for one in (theirs, ours):
        assert set(one.search(vector, 100, one.select(only))[1].tolist()) == wanted
        assert set(one.search_words(one.read_query(query), 100, only)[1].tolist()) == wanted & set(everything.tolist())
        assert one.matches(np.arange(one.chunk_count), only).nonzero()[0].tolist() == sorted(wanted)


@pytest.mark.parametrize(("first", "second"), BOTH, ids=str)
def test_one_of_several_filters(opened, first, second):
    theirs, ours = opened
    parts = [Filter.parse(first), Filter.parse(second)]
    wanted = set.union(*(set(theirs.select(part).rows().tolist()) for part in parts))
    check_choice(theirs, ours, Filter.any_of(parts), wanted)
    check_choice(
        theirs, ours, Filter.any_of([Filter.any_of([]), *parts]) & parts[0], wanted & wanted_of(theirs, parts[0])
    )
    check_choice(theirs, ours, Filter.any_of([Filter(), *parts]), set(range(theirs.chunk_count)))
    check_choice(theirs, ours, Filter.any_of([]), set())


def test_access_lists(opened):
    theirs, ours = opened
    assert ours.manifest.is_restricted
    listed = wanted_of(theirs, Filter.parse({"language": "de"}))
    everything = set(range(theirs.chunk_count))
    assert listed
    for names in ((), ("user:haus",), ("group:Haus",)):
        check_choice(theirs, ours, Filter(readers=frozenset(names)), everything - listed)
    check_choice(theirs, ours, Filter(readers=frozenset({"user:x", "group:haus"})), everything)
    check_choice(theirs, ours, Filter.parse({"language": "de"}) & Filter(readers=frozenset({"user:x"})), set())


def wanted_of(generation, only):
    return set(generation.select(only).rows().tolist())


@pytest.mark.parametrize("fields", FILTERS, ids=str)
def test_which_documents_a_filter_allows(opened, fields):
    theirs, ours = opened
    only = Filter.parse(fields)
    rows = theirs.select(only).rows()
    wanted = {document_id(chunk.document_url) for chunk in theirs.chunks(rows)}
    for one in (theirs, ours):
        assert {found["id"] for found in one.documents() if one.allows(found["id"], only)} == wanted
        assert not one.allows("0" * 32, only)
        assert not one.allows("no id", only)


def test_what_is_shown(opened):
    theirs, ours = opened
    rows = np.arange(theirs.chunk_count)[::-1]
    assert ours.chunks(rows) == theirs.chunks(rows)
    assert (ours.vectors(rows) == theirs.vectors(rows)).all()
    assert (ours.rows_of(rows) == theirs.rows_of(rows)).all()
    assert [ours.section(row) for row in rows.tolist()] == [theirs.section(row) for row in rows.tolist()]
    assert sorted(ours.facts([0, 2])) == sorted(theirs.facts([0, 2]))
    nothing = np.empty(0, np.int64)
    assert (ours.chunks(nothing), len(ours.vectors(nothing)), len(ours.rows_of(nothing))) == ([], 0, 0)
    for use in (lambda: ours.chunks(np.array([999])), lambda: ours.section(999)):
        with pytest.raises(IndexCorrupt, match="no chunk 999"):
            use()


def test_documents(opened):
    theirs, ours = opened
    wanted = list(theirs.documents())
    assert list(ours.documents()) == wanted
    assert [ours.document(document["id"]) for document in wanted] == wanted
    facts = [theirs.facts_by_id(document["id"]) for document in wanted]
    assert [found.url for found in facts] == [document["url"] for document in wanted]
    assert [ours.facts_by_id(document["id"]) for document in wanted] == facts
    for unknown in ("0" * 32, '" or true'):
        assert ours.document(unknown) is ours.facts_by_id(unknown) is theirs.facts_by_id(unknown) is None


def test_many_threads(opened):
    _, ours = opened
    texts = ["dead tuples", "fsync data", "a vacuum of storage", "a page"] * 8
    vectors = DummyEmbedder().encode(texts)

    def look(place):
        scores, _ = ours.search(vectors[place], 5)
        found = ours.search_words(ours.read_query(texts[place]), 5)[1]
        return scores.tolist(), [chunk.id for chunk in ours.chunks(found)]

    alone = [look(place) for place in range(4)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, range(len(texts)))) == alone * 8


def test_what_is_half_written_is_never_seen(source, store):
    newer, older = source.ids()
    published(source, store, older)

    def breaking(entries):
        yield next(entries)
        raise RuntimeError("the source went away")

    with closing(source.read(newer)) as reading, pytest.raises(RuntimeError, match="went away"):
        store.write(reading.manifest, breaking(reading.entries()))
    assert store.ids() == [store.live_id()] == [older]
    for use in (store.open, store.make_live):
        with pytest.raises(IndexMissing):
            use(newer)
    assert published(source, store, newer) == store.live_id()


def test_a_generation_of_other_counts_is_not_taken(source, store):
    with closing(source.read()) as reading, pytest.raises(IndexCorrupt, match="documents and"):
        store.write(reading.manifest, list(reading.entries())[1:])
    assert store.ids() == []


def test_going_back_and_clearing_away(source, store):
    newer, older = source.ids()
    assert [published(source, store, id) for id in (older, newer)] == [older, newer]
    assert (store.ids(), store.live_id()) == ([newer, older], newer)
    for conflict in (lambda: store.remove(newer), lambda: written(source, store, newer)):
        with pytest.raises(StoreConflict, match=newer):
            conflict()
    store.make_live(older)
    assert store.live_id() == older
    assert written(source, store, newer) == newer  # again, in place of the one that is not live
    store.keep(2)
    assert store.ids() == [newer, older]
    store.keep(1)
    assert store.ids() == [store.live_id()] == [older]
    with pytest.raises(IndexMissing):
        store.open(newer)


def test_generations_that_are_not_there(source, store):
    published(source, store)
    for use in (store.open, store.read, store.make_live, store.remove):
        with pytest.raises(IndexMissing, match=r"20200101T000000\D000000"):
            use("20200101T000000-000000")


def test_no_search_fails_while_generations_are_switched(source, store):
    ids = source.ids()
    for id in ids:
        published(source, store, id)
    vector = DummyEmbedder().encode(["dead tuples"])[0]
    switches = 10

    def search_until(done):
        seen = set()
        while not done.done():
            with closing(store.open()) as generation:
                assert (
                    len(generation.search(vector, 3)[1])
                    == len(generation.search_words(generation.read_query("tuples"), 1)[1]) * 3
                )
                seen.add(generation.id)
        return seen

    with ThreadPoolExecutor(5) as pool:
        switching = pool.submit(lambda: [store.make_live(ids[turn % 2]) for turn in range(switches)])
        searching = [pool.submit(search_until, switching) for _ in range(4)]
        assert len(switching.result()) == switches
        seen = set().union(*(one.result() for one in searching))
        assert seen == set(ids)
