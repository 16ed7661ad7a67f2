"""Searches in Milvus find what those in the index folder find."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from indexer.errors import IndexCorrupt, IndexMissing, VectorError
from indexer.filter import Filter
from indexer.generation.manifest import read_manifest
from indexer.generation.previous import scan
from indexer.stores import FolderStore
from indexer.stores.milvus_store import MilvusStore
from tests.building import build_index
from tests.dummy import DummyEmbedder
from tests.milvus_server import ids_of

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


def built(root):
    build_index(root / "index", root / "docs", keep_generations=2)


@pytest.fixture(scope="module")
def make_store(milvus):
    """Make a store with nothing in it."""
    return lambda: MilvusStore(milvus.place(f"docs_{secrets.token_hex(4)}"))


@pytest.fixture
def store(make_store):
    with closing(make_store()) as store:
        yield store


@pytest.fixture(scope="module")
def both(make_store, source):
    """A generation open in the folder, and in Milvus."""
    with closing(make_store()) as store:
        published(source, store)
        with closing(source.open()) as theirs, closing(store.open()) as ours:
            yield theirs, ours


def written(source, store, id=None):
    id = id or source.live_id()
    store.write(read_manifest(source.folder / "generations" / id), scan(source.folder, id))
    return id


def published(source, store, id=None):
    store.make_live(id := written(source, store, id))
    return id


def rows_of(found):
    return set(found[1].tolist())


VECTOR = DummyEmbedder().encode(["dead tuples of a table"])[0]


def count_of(generation):
    return generation.manifest.counts.chunks


def allowed(generation, filter):
    """Return the rows that a filter allows."""
    return rows_of(generation.search_vectors(VECTOR, count_of(generation), filter))


def test_search_by_meaning(both):
    theirs, ours = both
    for k in (1, 3, 100):
        (wanted, _), (scores, rows) = theirs.search_vectors(VECTOR, k), ours.search_vectors(VECTOR, k)
        np.testing.assert_allclose(scores, wanted, atol=1e-6)
        np.testing.assert_allclose(theirs.vectors(rows) @ VECTOR, scores, atol=1e-6)
        assert len(set(rows.tolist())) == min(k, count_of(theirs))
    for wrong in (VECTOR[:-1], VECTOR * np.nan):
        with pytest.raises(VectorError):
            ours.search_vectors(wrong, 3)


@pytest.mark.parametrize("query", QUERIES)
def test_search_by_words(both, query):
    (wanted, wanted_rows), (scores, rows) = (one.search_terms(one.read_query(query), 100) for one in both)
    assert set(rows.tolist()) == set(wanted_rows.tolist())
    assert (np.diff(scores) <= 0).all()
    if '"' not in query:  # a phrase weighs otherwise in Milvus
        np.testing.assert_allclose(scores, wanted, rtol=0.05)  # which counts the words of a passage exactly
    # a search by meaning stays within what the query requires and excludes
    filter = Filter.parse({"language": "en"})
    theirs, ours = (rows_of(one.search_vectors(VECTOR, 100, terms=one.read_query(query))) for one in both)
    assert ours == theirs
    for one in both:
        assert rows_of(one.search_vectors(VECTOR, 100, filter, one.read_query(query))) == theirs & allowed(one, filter)


PARTS = [Filter.parse(fields) for fields in FILTERS]
COMBINED = [
    PARTS[0] & PARTS[2],
    Filter.any_of([PARTS[0], PARTS[3]]),
    Filter.any_of([Filter.any_of([]), PARTS[0]]) & PARTS[6],
    Filter.any_of([Filter(), PARTS[0]]),
    Filter.any_of([]),
    Filter(readers=frozenset({"user:haus"})),
    Filter(readers=frozenset({"user:x", "group:haus"})),
    PARTS[0] & Filter(readers=frozenset({"user:x"})),
]


@pytest.mark.parametrize("filter", [*PARTS, *COMBINED], ids=map(str, range(16)))
def test_filters(both, filter):
    theirs, ours = both
    query, wanted = "tuples 火災 vacuum fsync", allowed(theirs, filter)
    assert allowed(ours, filter) == wanted
    documents = {found["id"] for found in theirs.documents() if next(theirs.documents(filter, found["id"]), None)}
    for one in both:
        assert rows_of(one.search_vectors(VECTOR, 100, filter)) == wanted
        terms = one.read_query(query)
        assert rows_of(one.search_terms(terms, 100, filter)) == rows_of(one.search_terms(terms, 100)) & wanted
        assert {found["id"] for found in one.documents(filter)} == documents


def test_what_is_shown(both):
    theirs, ours = both
    rows = np.arange(count_of(theirs))[::-1]
    assert ours.chunks(rows) == theirs.chunks(rows)
    assert (ours.vectors(rows) == theirs.vectors(rows)).all()
    for here, there in zip(ours.row_facts(rows), theirs.row_facts(rows), strict=True):
        assert here.tolist() == there.tolist()
    assert [ours.section(row) for row in rows.tolist()] == [theirs.section(row) for row in rows.tolist()]
    assert ours.facts([0, 2]) == theirs.facts([0, 2])
    assert ours.facts([]) == {}
    for use in (lambda: ours.chunks(np.array([999])), lambda: ours.section(999)):
        with pytest.raises(IndexCorrupt, match="no chunk 999"):
            use()


def test_documents(both):
    wanted = list(both[0].documents())
    for one in both:
        assert list(one.documents()) == wanted
        assert [next(one.documents(id=document["id"])) for document in wanted] == wanted
        assert [list(one.documents(id=unknown)) for unknown in ("0" * 32, '" or true')] == [[], []]


def test_what_is_written_is_live_once_it_is_made_so(source, store):
    assert store.published() == []
    for use in (store.live_id, store.open):
        with pytest.raises(IndexMissing, match="index"):
            use()
    id = written(source, store)
    assert ids_of(store) == [id]
    with pytest.raises(IndexMissing):
        store.live_id()
    store.make_live(id)
    [listed], manifest = store.published(), source.open().manifest
    assert (listed.id, listed.live, listed.documents, listed.problem) == (store.live_id(), True, len(PAGES), "")
    assert (listed.created_at, listed.chunks) == (manifest.created_at, manifest.counts.chunks)


def test_what_is_half_written_is_never_seen_and_is_written_again(source, store):
    newer, older = ids_of(source)
    published(source, store, older)

    def breaking(entries):
        yield next(entries)
        raise RuntimeError("the source went away")

    manifest = read_manifest(source.folder / "generations" / newer)
    with pytest.raises(RuntimeError, match="went away"):
        store.write(manifest, breaking(scan(source.folder, newer)))
    assert ids_of(store) == [store.live_id()] == [older]
    for use in (store.open, store.make_live):
        with pytest.raises(IndexMissing):
            use(newer)
    with pytest.raises(IndexCorrupt, match="chunks instead of"):
        store.write(manifest, list(scan(source.folder, newer))[1:])
    assert published(source, store, newer) == store.live_id()


def test_going_back_and_clearing_away(source, store):
    newer, older = ids_of(source)
    assert [published(source, store, id) for id in (older, newer)] == [older, newer]
    store.make_live(older)
    store.keep(1)
    assert (ids_of(store), store.live_id()) == ([newer, older], older)
    store.make_live(newer)
    store.keep(1)
    assert ids_of(store) == [store.live_id()] == [newer]
    with pytest.raises(IndexMissing):
        store.open(older)


def test_no_search_fails_while_generations_are_switched(source, store):
    ids = ids_of(source)
    for id in ids:
        published(source, store, id)

    def search_until(done):
        seen = set()
        while not done.done():
            with closing(store.open()) as generation:
                found = generation.search_terms(generation.read_query("tuples"), 1)
                assert len(generation.search_vectors(VECTOR, 3)[1]) == len(found.rows) * 3
                seen.add(generation.manifest.id)
        return seen

    with ThreadPoolExecutor(5) as pool:
        switching = pool.submit(lambda: [store.make_live(ids[turn % 2]) for turn in range(10)])
        searching = [pool.submit(search_until, switching) for _ in range(4)]
        assert len(switching.result()) == 10
        assert set().union(*(one.result() for one in searching)) == set(ids)
