"""Indexes that follow their sources: real folders, real signals."""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.generation.layout import collection_dir, current_id
from indexer.pipeline.progress import Progress, progress_for
from rag.serving.builds import SourceBuilds
from rag.settings import load
from rag.settings_file import ConfiguredSource
from tests.dummy import DummyEmbedder

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=20.0))
HUNG = 30  # seconds, after which a test that waits for a change that never comes fails


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cats.txt").write_text("Cats purr.")
    return folder


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    def hung(*_: object) -> None:
        raise TimeoutError("nothing happened")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(HUNG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def builds(
    tmp_path: Path, *sources: ConfiguredSource, said: Callable[[str], None] = print, **more: Any
) -> SourceBuilds:
    settings = load({"index": str(tmp_path / "index")}, {})
    return SourceBuilds(settings, CONFIG, DummyEmbedder(), sources, progress=quiet, log_line=said, **more)


def quiet() -> Progress:
    return progress_for(sys.stderr, quiet=True)


def documents(index: Path) -> dict[str, str]:
    path = index / "generations" / current_id(index) / "documents.sqlite"
    with sqlite3.connect(path) as database:
        return dict(database.execute("SELECT url, metadata FROM documents"))


def test_a_watched_folder_is_followed(tmp_path: Path, notes: Path) -> None:
    dogs = tmp_path / "dogs.txt"
    dogs.write_text("Dogs bark.")
    said: list[str] = []
    steps: Iterator[Callable[[], object]] = iter(
        [
            lambda: dogs.rename(notes / "dogs.txt"),  # at once, so that it is never seen empty
            lambda: (notes / "cats.txt").unlink(),
            lambda: os.kill(os.getpid(), signal.SIGTERM),
        ]
    )

    def say(text: str) -> None:
        said.append(text)
        next(steps)()

    work = builds(tmp_path, ConfiguredSource(str(notes)), said=say)
    work.watch()
    assert [line.partition(", 0 failed")[0].partition(": generation")[0] for line in said] == [
        "default: 1 new, 0 changed, 0 gone, 0 unchanged",
        "default: 1 new, 0 changed, 0 gone, 1 unchanged",
        "default: 0 new, 0 changed, 1 gone, 1 unchanged",
    ]
    assert work.totals == {"runs": 3, "published": 3, "failed": 0}
    assert list(documents(tmp_path / "index")) == [(notes / "dogs.txt").as_uri()]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_folder_that_is_taken_away_and_put_back(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.serving.builds.RETRY", 0.1)
    away = tmp_path / "away"
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 1:
            notes.rename(away)
        elif "failed" in text and away.exists():
            away.rename(notes)
        elif "failed" not in text and notes.exists():
            os.kill(os.getpid(), signal.SIGTERM)

    builds(tmp_path, ConfiguredSource(str(notes)), said=say).watch()
    assert "failed, will retry" in said[1]
    assert said[-1].startswith("default: nothing has changed: 1 document,")
    assert all("failed, will" in line for line in said[1:-1]), "nothing was taken for gone meanwhile"


def test_collections_and_metadata(tmp_path: Path, notes: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "birds.md").write_text("---\nteam: birds\n---\n\nBirds sing.\n")
    birds = ConfiguredSource(str(other), collection="team", metadata={"team": ("core",), "for": ("a", "b")})

    def once(metadata: dict[str, tuple[str, ...]]) -> list[bool]:
        reports = builds(tmp_path, birds, ConfiguredSource(str(notes), metadata=metadata)).once()
        return [reports[name].published for name in ("default", "team")]

    index = tmp_path / "index"
    assert once({}) == [True, True]
    assert list(documents(collection_dir(index, "team")).values()) == ['{"team": "birds", "for": ["a", "b"]}']
    assert once({}) == [False, False]
    assert once({"kind": ("note",)}) == [True, False]
    assert list(documents(index).values()) == ['{"kind": "note"}']


def test_full_is_for_every_collection_and_for_one_time(tmp_path: Path, notes: Path) -> None:
    sources = [ConfiguredSource(str(notes)), ConfiguredSource(str(notes), collection="team")]
    builds(tmp_path, *sources).once()
    work = builds(tmp_path, *sources, full=True)
    assert [report.published for report in work.once().values()] == [True, True]
    assert [report.published for report in work.once().values()] == [False, False]
