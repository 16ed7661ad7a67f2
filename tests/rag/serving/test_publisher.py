"""Publishing to Milvus: nothing is lost, nothing is live before it is whole, and what fails can be done again."""

import os
import secrets
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from indexer.errors import IndexMissing, StoreAddressError, StoreUnreachable
from indexer.generation.generation import Generation
from indexer.generation.layout import current_id
from indexer.generation.likeness import TITLES
from indexer.generation.previous import scan
from indexer.pipeline.progress import progress_for
from rag.commands.generations import rollback
from rag.commands.generations import verify as verify_verb
from rag.commands.indexing import IndexRequest, index_sources
from rag.errors import NotPublished, SettingsError
from rag.serving.store_access import Publisher, milvus_at
from rag.settings import load
from tests.dummy import DummyEmbedder


def quiet():
    return progress_for(sys.stderr, quiet=True)


@pytest.fixture
def place(milvus):
    """Return the address of a store that has nothing yet."""
    return milvus.place(f"docs_{secrets.token_hex(4)}")


@pytest.fixture
def target(place):
    with closing(milvus_at(place)) as store:
        yield store


def publish(site, target, keep=2):
    publisher = Publisher(target, keep=keep, quiet=True)
    publisher(site.index)
    return publisher.done


def ids_of(store):
    return [each.id for each in store.published()]


def test_a_store_without_tokens_says_so(site, target):
    site.build(tokens=True)
    assert publish(site, target)["warnings"] == [
        f"{target.name} does not keep tokens: its searches rank without late interaction"
    ]


def test_what_repeats_is_found_out_while_it_is_published(site, target):
    for number in range(TITLES):
        (site.source / f"type{number}.md").write_text(f"# Type {number}\n\nReturns a copy of the value.\n")
    site.build()
    publish(site, target)
    with closing(Generation.open(site.index)) as ours, closing(target.open()) as theirs:
        rows = np.arange(ours.manifest.counts.chunks)
        assert np.count_nonzero(theirs.row_facts(rows).repeated) == TITLES
        assert np.count_nonzero(ours.row_facts(rows).repeated) == TITLES


def test_what_is_live_already_is_not_written_again_and_older_ones_are_removed(site, target):
    for turn in range(3):
        (site.source / "new.md").write_text(f"# New\n\nfresh page number {turn}\n")
        newest = site.build()
        assert publish(site, target, keep=1)["copied"]
        assert publish(site, target, keep=1) == {"generation": newest, "target": target.name, "copied": False}
    assert ids_of(target) == [newest]


def shortened(entries):
    yield next(iter(entries))


def broken(entries):
    yield next(iter(entries))
    raise StoreUnreachable("the store has gone")


def test_what_fails_leaves_the_old_one_live_and_can_be_done_again(site, target, monkeypatch):
    old = site.build()
    publish(site, target)
    (site.source / "new.md").write_text("# New\n\na new page\n")
    newest = site.build()
    for change, message in ((shortened, "chunks instead of"), (broken, "has gone")):
        with monkeypatch.context() as patch:
            patch.setattr("rag.serving.store_access.scan", lambda *place, change=change: change(scan(*place)))
            with pytest.raises(NotPublished, match=message):
                publish(site, target)
        assert (target.live_id(), ids_of(target)) == (old, [old])
    assert publish(site, target)["copied"]
    assert ids_of(target) == [newest, old]


KILLED = """
import sys, threading
from pathlib import Path

from indexer.generation.previous import scan
from rag.serving import store_access as publisher
from rag.serving.store_access import milvus_at

def stop(*place):
    yield next(iter(scan(*place)))
    print("midway", flush=True)
    threading.Event().wait()

publisher.scan = stop
publisher.Publisher(milvus_at(sys.argv[2]), keep=2, quiet=True)(Path(sys.argv[1]))
"""


def test_a_process_that_is_killed_midway(site, target, place):
    old = site.build()
    publish(site, target)
    (site.source / "new.md").write_text("# New\n\na new page\n")
    newest = site.build()
    line = [sys.executable, "-c", KILLED, str(site.index), place]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "midway\n"
        os.kill(process.pid, signal.SIGKILL)
    assert (target.live_id(), ids_of(target)) == (old, [old])
    assert publish(site, target)["copied"]
    assert (target.live_id(), ids_of(target)) == (newest, [newest, old])


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
    assert report["store"]["generation"] == current_id(site.index) == target.live_id()


def test_a_store_holds_one_collection(site, settings):
    with pytest.raises(SettingsError, match="holds one collection"):
        rollback(replace(settings, collection="manuals"), None)


def test_generations_and_rollback_of_a_store(site, target, settings):
    older = site.build()
    publish(site, target)
    (site.source / "new.md").write_text("# New\n\na new page\n")
    newest = site.build()
    publish(site, target)
    target.close()
    listed, table = rollback(settings, None, only_list=True)
    assert [(item["id"], item["live"]) for item in listed["generations"]] == [(newest, True), (older, False)]
    assert older in table
    report, _ = rollback(settings, None)
    assert (report["before"], report["generation"], target.live_id()) == (newest, older, older)
    with pytest.raises(IndexMissing, match="no generation older"):
        rollback(settings, None)
    with pytest.raises(IndexMissing, match="no generation 'x'"):
        rollback(settings, "x")
    assert rollback(settings, newest)[0]["generation"] == newest


def test_a_store_is_verified(site, target, settings):
    built = site.build()
    publish(site, target)
    report, text = verify_verb(settings)
    assert (report["ok"], report["generation"]) == (True, built)
    assert text.endswith("is intact")
    with pytest.raises(IndexMissing):
        verify_verb(settings, generation="20200101T000000-000000")


def test_an_empty_store_has_no_generations(settings):
    with pytest.raises(IndexMissing):
        rollback(settings, None)


def test_a_place_that_is_none_is_told(settings):
    with pytest.raises(StoreAddressError, match="redis://"):
        rollback(replace(settings, store="redis://host/x"), None)
