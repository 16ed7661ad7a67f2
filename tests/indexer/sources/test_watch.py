"""Real changes to real files; every wait ends as soon as the change is told."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.sources.folder import Watcher

SOON, NEVER = 20.0, 1.0  # seconds; the first only passes where a test fails


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    return folder


@pytest.fixture
def watcher(notes: Path) -> Iterator[Watcher]:
    watcher = Watcher([str(notes)], notes / "index")
    yield watcher
    watcher.close()


def test_a_folder_is_seen_to_change(notes: Path, watcher: Watcher) -> None:
    (notes / "deep" / "b.txt").write_text("b")
    assert watcher.wait(SOON) == {str(notes)}
    notes.rename(notes.with_name("gone"))
    notes.mkdir()
    watcher.renew(str(notes))
    (notes / "a.txt").write_text("b")
    assert watcher.wait(SOON) == {str(notes)}


def test_what_the_build_ignores_changes_nothing(notes: Path, watcher: Watcher) -> None:
    (notes / ".git").mkdir()
    (notes / ".git" / "config").write_text("x")
    (notes / ".a.txt.swp").write_text("x")
    (notes / "index" / "building").mkdir(parents=True)
    (notes / "index" / "building" / "documents.sqlite").write_text("x")
    assert watcher.wait(NEVER) == set()


def test_a_file_is_followed_when_it_is_replaced(notes: Path) -> None:
    file = notes / "a.txt"
    watcher = Watcher([str(file)], notes / "index")
    try:
        (notes / "other.txt").write_text("x")
        assert watcher.wait(NEVER) == set()
        for text in ("b", "c"):  # as editors save
            (notes / "new").write_text(text)
            os.replace(notes / "new", file)
            assert watcher.wait(SOON) == {str(file)}
    finally:
        watcher.close()
