"""Copies of generations: nothing is lost, nothing is live before it is whole, and what fails can be done again."""

import os
import secrets
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError, StoreUnreachable
from indexer.generation.repetition import TITLES
from indexer.pipeline.progress import progress_for
from indexer.stores.digest import digest_of
from indexer.stores.folder_store import FolderStore
from rag.commands.generations import rollback
from rag.commands.generations import verify as verify_verb
from rag.commands.index import IndexRequest, index_sources
from rag.errors import CopyDiffers, NotPublished, SettingsError
from rag.serving.publisher import copy
from rag.serving.store_access import live_id, store_at
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.indexer.generation.test_repetition import made_older

KINDS = ["folder", "milvus"]


def quiet():
    return progress_for(sys.stderr, quiet=True)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    """Where a store is that has nothing yet."""
    if request.param == "folder":
        return str(tmp_path / "copy")
    return request.getfixturevalue("milvus").place(f"docs_{secrets.token_hex(4)}")


@pytest.fixture
def target(place):
    with closing(store_at(place)) as store:
        yield store


@pytest.fixture
def source(site):
    site.build()
    return FolderStore(site.index)


def copied(source, target, keep=2):
    return copy(source, target, keep=keep, step=lambda text: None)


def content(store):
    with closing(store.read()) as reading:
        return digest_of(reading), sorted(reading.pages(), key=lambda page: page.url)


def test_a_copy_is_the_same(source, target):
    there = copied(source, target)
    assert there.generation == source.live_id() == target.live_id()
    assert (there.copied, there.documents, there.chunks, there.samples) == (True, 3, 3, 3)
    assert there.overlap == {"dense": 1.0, "lexical": 1.0}
    assert content(target) == content(source)


def test_a_store_without_tokens_says_so(site, place, target):
    site.build(tokens=True)
    source = FolderStore(site.index)
    report = copied(source, target)
    with closing(source.open()) as ours, closing(target.open()) as theirs:
        if place.startswith("milvus"):
            [warning] = report.warnings
            assert warning == f"{target.name} does not keep tokens: its searches rank without late interaction"
            assert theirs.tokens is None
        else:
            assert report.warnings == []
            assert np.array_equal(theirs.tokens.signs, ours.tokens.signs)


def test_what_repeats_is_known_in_every_store(site, source, target):
    for number in range(TITLES):
        (site.source / f"type{number}.md").write_text(f"# Type {number}\n\nReturns a copy of the value.\n")
    site.build()
    copied(source, target)
    with closing(source.open()) as ours, closing(target.open()) as theirs:
        rows = np.arange(ours.chunk_count)
        shares = ours.repetition(rows)
        assert np.count_nonzero(shares) == TITLES
        assert theirs.repetition(rows).tolist() == shares.tolist()


def test_what_repeats_is_found_out_where_the_source_is_of_an_older_program(site, source, target):
    for number in range(TITLES):
        (site.source / f"type{number}.md").write_text(f"# Type {number}\n\nReturns a copy of the value.\n")
    site.build()
    made_older(site.index)
    copied(source, target)
    with closing(source.open()) as ours, closing(target.open()) as theirs:
        rows = np.arange(ours.chunk_count)
        assert np.count_nonzero(ours.repetition(rows)) == 0
        assert np.count_nonzero(theirs.repetition(rows)) == TITLES


def test_what_is_there_already_is_not_copied_again(source, target):
    first = copied(source, target)
    again = copied(source, target)
    assert (again.copied, again.checksum) == (False, first.checksum)


def test_older_copies_are_removed(site, source, target):
    for turn in range(3):
        (site.source / "new.md").write_text(f"# New\n\nfresh page number {turn}\n")
        newest = site.build()
        copied(source, target, keep=1)
    assert target.ids() == [newest]


def test_nothing_to_copy_is_told(tmp_path, target):
    with pytest.raises(IndexMissing, match="no index"):
        copied(FolderStore(tmp_path / "nowhere"), target)
    assert target.ids() == []


class Disturbed:
    """A store in which something happens to what is written."""

    def __init__(self, store, change):
        self._store, self._change = store, change

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, manifest, entries, pages=()):
        self._store.write(manifest, self._change(entries), pages)


def altered(entries):
    for entry in entries:
        yield entry._replace(vectors=entry.vectors[:, ::-1])


def reworded(entries):
    for entry in entries:
        yield entry._replace(chunks=[replace(chunk, text=chunk.text + "!") for chunk in entry.chunks])


def shortened(entries):
    yield next(iter(entries))


def broken(entries):
    yield next(iter(entries))
    raise StoreUnreachable("the store has gone")


def test_a_copy_that_fails_leaves_the_old_one_live_and_can_be_made_again(site, source, target):
    old = copied(source, target)
    (site.source / "new.md").write_text("# New\n\na new page\n")
    newest = site.build()
    for change, error, told in (
        (altered, CopyDiffers, "checksum"),
        (reworded, CopyDiffers, "checksum"),
        (shortened, IndexCorrupt, "documents"),
        (broken, StoreUnreachable, "has gone"),
    ):
        with pytest.raises(error, match=told):
            copied(source, Disturbed(target, change))
        assert (target.live_id(), target.ids()) == (old.generation, [old.generation])
    assert copied(source, target).copied
    assert target.ids() == [newest, old.generation]


def test_a_copy_that_was_not_made_live_is_compared_before_it_is(source, target):
    with closing(source.read()) as reading:
        target.write(reading.manifest, altered(reading.entries()), reading.pages())
    assert live_id(target) is None
    assert copied(source, target).copied
    assert content(target) == content(source)


def test_searches_that_find_something_else_are_noticed(source, target):
    class Blind(Disturbed):
        def open(self, generation=None):
            found = self._store.open(generation)
            found.search = lambda vector, k, allowed=None: (vector[:0], vector[:0].astype("int64"))
            return found

    with pytest.raises(CopyDiffers, match="dense searches find only 0%"):
        copied(source, Blind(target, iter))
    assert target.ids() == []


KILLED = """
import sys, threading
from pathlib import Path

from indexer.stores.folder_store import FolderStore
from rag.serving.publisher import copy
from rag.serving.store_access import store_at
from tests.rag.serving.test_publisher import Disturbed

def stop(entries):
    yield next(iter(entries))
    print("midway", flush=True)
    threading.Event().wait()

copy(FolderStore(Path(sys.argv[1])), Disturbed(store_at(sys.argv[2]), stop), keep=2, step=lambda text: None)
"""


def test_a_copy_that_is_killed_midway(site, source, place):
    with closing(store_at(place)) as target:
        old = copied(source, target).generation
    (site.source / "new.md").write_text("# New\n\na new page\n")
    newest = site.build()
    line = [sys.executable, "-c", KILLED, source.name, place]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "midway\n"
        os.kill(process.pid, signal.SIGKILL)
    with closing(store_at(place)) as target:
        assert (target.live_id(), target.ids()) == (old, [old])
        assert copied(source, target).copied
        assert (target.live_id(), target.ids()) == (newest, [newest, old])
        assert content(target) == content(source)


# The verbs


@pytest.fixture
def settings(site, place, monkeypatch):
    monkeypatch.setattr("rag.commands.models.lazy_embedder", lambda settings, quiet: DummyEmbedder())
    return load({"index": str(site.index), "store": place}, {})


def test_index_publishes_to_the_store(site, settings, target):
    target.close()
    report, text = index_sources(IndexRequest([str(site.source)]), settings, quiet, quiet=True)
    assert report["store"]["generation"] == report["generation"]
    assert report["store"]["copied"]
    assert f"generation {report['generation']} is live in {settings.store}" in text
    again, _ = index_sources(IndexRequest(), settings, quiet, quiet=True)
    assert again["store"] == {"generation": report["generation"], "target": settings.store, "copied": False}
    (site.source / "vacuum.md").unlink()
    newest, _ = index_sources(IndexRequest(), settings, quiet, quiet=True)
    assert target.live_id() == newest["generation"] != report["generation"]


def test_a_build_that_cannot_be_published_is_kept(site, settings, target, monkeypatch):
    def refuse(*_):
        raise StoreUnreachable("nobody answers")

    with monkeypatch.context() as patch:
        patch.setattr(type(target), "write", refuse)
        with pytest.raises(NotPublished, match=r"nobody answers; the build is complete.*the next index with --store"):
            index_sources(IndexRequest([str(site.source)]), settings, quiet, quiet=True)
    report, _ = index_sources(IndexRequest(), settings, quiet, quiet=True)
    assert (report["published"], report["store"]["copied"]) == (False, True)
    assert report["store"]["generation"] == FolderStore(site.index).live_id() == target.live_id()


def test_a_store_holds_one_collection(site, settings):
    with pytest.raises(SettingsError, match="holds one collection"):
        rollback(replace(settings, collection="manuals"), None)


def test_generations_and_rollback_of_a_store(site, source, target, settings):
    older = copied(source, target).generation
    (site.source / "new.md").write_text("# New\n\na new page\n")
    newest = site.build()
    copied(source, target)
    target.close()
    listed, table = rollback(settings, None)
    assert [(item["id"], item["live"]) for item in listed["generations"]] == [(newest, True), (older, False)]
    assert older in table
    report, _ = rollback(settings, "previous")
    assert (report["before"], report["generation"], target.live_id()) == (newest, older, older)
    with pytest.raises(IndexMissing, match="no generation older"):
        rollback(settings, "previous")
    with pytest.raises(IndexMissing, match="no generation 'x'"):
        rollback(settings, "x")
    assert rollback(settings, newest)[0]["generation"] == newest


def test_a_store_is_verified(source, target, settings):
    copied(source, target)
    report, text = verify_verb(settings)
    assert (report["ok"], report["generation"]) == (True, source.live_id())
    assert text.endswith("is intact")
    with pytest.raises(IndexMissing):
        verify_verb(settings, generation="20200101T000000-000000")


def test_an_empty_store_has_no_generations(settings):
    with pytest.raises(IndexMissing):
        rollback(settings, None)


def test_a_place_that_is_none_is_told(settings):
    with pytest.raises(StoreAddressError, match="redis://"):
        rollback(replace(settings, store="redis://host/x"), None)
