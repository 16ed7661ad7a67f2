"""Generations that a judge holds back: on the disk, not live, and gone with the next that is published."""

import io

import pytest

from indexer.build.build import build
from indexer.build.progress import progress_for
from indexer.config import BuildConfig
from indexer.generation.layout import HELD_BACK
from indexer.publish.collections import generation_ids, list_generations, live_id
from indexer.publish.held_back import HeldBack, held_back
from indexer.publish.publish import prepare, roll_back
from indexer.records import Page
from indexer.sources.pushed_store import SOURCE, PushedStore
from tests.dummy import DummyEmbedder


def worse(live, draft):
    return HeldBack(draft.name, f"worse than {live.name}", {"queries": 3})


class Source:
    def __init__(self, root):
        self.folder, self.index = root / "source", root / "index"
        self.folder.mkdir()

    def build(self, text, judge=None, keep=2):
        (self.folder / "page.md").write_text(f"# Page\n\n{text}\n")
        progress, config = progress_for(io.StringIO(), quiet=True), BuildConfig(keep_generations=keep)
        return build([str(self.folder)], self.index, DummyEmbedder(), config, progress=progress, judge=judge)


@pytest.fixture
def source(tmp_path):
    return Source(tmp_path)


def test_what_is_held_back_is_there_and_not_live(source):
    first = source.build("one").generation
    report = source.build("two", worse)
    held = held_back(source.index)
    assert held == report.held_back
    assert held == HeldBack(generation_ids(source.index)[0], f"worse than {first}", {"queries": 3})
    assert (report.published, report.generation, live_id(source.index)) == (False, first, first)
    assert [(one.id, one.live, one.held_back) for one in list_generations(source.index)] == [
        (held.generation, False, held.reason),
        (first, True, ""),
    ]
    assert "held back" in report.line()
    assert f"held back    {held.generation}: {held.reason}" in report.table().splitlines()
    assert report.as_dict()["held_back"]["figures"] == {"queries": 3}


def test_it_is_published_by_its_id(source):
    source.build("one")
    name = source.build("two", worse).held_back.generation
    assert roll_back(source.index, name) == name == live_id(source.index)
    assert held_back(source.index) is None
    assert not (source.index / HELD_BACK).exists()


def test_what_is_published_next_takes_its_place(source):
    first = source.build("one").generation
    source.build("two", worse)
    third = source.build("three", lambda live, draft: None).generation
    assert generation_ids(source.index) == [third, first]
    assert not (source.index / HELD_BACK).exists()


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_it_is_kept_beside_those_that_are_kept(source, keep):
    before = [source.build(text, keep=keep).generation for text in ("one", "two", "three")]
    held = [source.build(text, worse, keep=keep).held_back.generation for text in ("four", "five")]
    assert generation_ids(source.index) == [held[-1], *reversed(before[-keep:])]
    older = source.build("three", worse, keep=keep)  # as the live one, so that there is nothing to judge
    assert (older.held_back, held_back(source.index).generation) == (None, held[-1])


def test_after_a_rollback_it_is_still_held_back(source):
    source.build("one")
    source.build("two")
    held = source.build("three", worse).held_back
    roll_back(source.index)
    assert held_back(source.index) == held


def test_the_first_one_is_not_judged(source):
    assert source.build("one", worse).published


def test_what_was_pushed_still_waits(source):
    source.build("one")
    prepare(source.index)
    store = PushedStore(source.index)
    store.put(Page("https://wiki.test/a", SOURCE, b"Text", "text/plain", "utf-8", None, None, "2026-11-20T04:00:00Z"))
    source.build("two", worse)
    assert store.is_waiting()
    source.build("two")
    assert not store.is_waiting()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"generation": "../..", "reason": "", "figures": {}}'])
def test_a_file_of_somebody_else_holds_nothing_back(source, content):
    source.build("one")
    (source.index / HELD_BACK).write_bytes(content)
    assert held_back(source.index) is None
    assert source.build("two").published
