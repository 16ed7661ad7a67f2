"""Indexes that follow their sources: real folders, real signals."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.errors import SourceError
from indexer.generation.generation import Generation
from indexer.pipeline.progress import BuildReport, Progress
from rag.commands import indexing
from rag.commands.indexing import SourceBuilds
from rag.settings import Settings
from tests.dummy import DummyEmbedder

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=300.0))
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


def builds(tmp_path: Path, source: Path) -> SourceBuilds:
    return SourceBuilds(Settings(index=str(tmp_path / "index")), CONFIG, DummyEmbedder(), [str(source)], quiet)


def quiet() -> Progress:
    return Progress(sys.stderr, quiet=True)


def documents(index: Path) -> list[str]:
    with closing(Generation.open(index)) as generation:
        return [document["url"] for document in generation.documents()]


Say = Callable[[Callable[[str], None]], None]


@pytest.fixture
def on_line(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return what has a function called with every line of the log."""

    def set_to(say: Callable[[str], None]) -> None:
        monkeypatch.setattr(indexing, "print", lambda time, line, **_: say(line), raising=False)

    return set_to


def test_a_watched_folder_is_followed(tmp_path: Path, notes: Path, on_line: Say) -> None:
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
    on_line(lambda line: (said.append(line), next(steps)())[0])
    totals = builds(tmp_path, notes).watch(full=True)
    assert [line.partition(", 0 failed")[0].partition(": generation")[0] for line in said] == [
        "1 new, 0 changed, 0 gone, 0 unchanged",
        "1 new, 0 changed, 0 gone, 1 unchanged",
        "0 new, 0 changed, 1 gone, 1 unchanged",
    ]
    assert totals == {"runs": 3, "published": 3, "failed": 0}
    assert documents(tmp_path / "index") == [(notes / "dogs.txt").as_uri()]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sources_that_others_add_meanwhile_stay(tmp_path: Path, notes: Path, on_line: Say) -> None:
    dogs = tmp_path / "dogs.txt"
    dogs.write_text("Dogs bark.")
    followed, both = (
        builds(tmp_path, notes),
        SourceBuilds(Settings(index=str(tmp_path / "index")), CONFIG, DummyEmbedder(), [str(notes), str(dogs)], quiet),
    )
    firsts: list[int] = []
    said: list[str] = []

    def add_source(report: BuildReport) -> None:
        firsts.append(report.documents)
        both.build(both.sources)
        (notes / "cows.txt").write_text("Cows moo.")

    on_line(lambda line: (said.append(line), os.kill(os.getpid(), signal.SIGTERM))[0])
    totals = followed.watch(on_first=add_source)
    assert firsts == [1]
    assert totals == {"runs": 1, "published": 1, "failed": 0}
    assert said[0].startswith("1 new, 0 changed, 0 gone, 2 unchanged")
    assert sorted(documents(tmp_path / "index")) == sorted(
        path.as_uri() for path in (dogs, notes / "cats.txt", notes / "cows.txt")
    )


def test_the_first_build_may_fail_for_good(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="gone"):
        builds(tmp_path, tmp_path / "gone").watch(on_first=lambda report: None)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_folder_that_is_taken_away_and_put_back(
    tmp_path: Path, notes: Path, on_line: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "RETRY_SECONDS", 0.1)
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

    on_line(say)
    builds(tmp_path, notes).watch()
    assert "failed, will retry" in said[1]
    assert said[-1].startswith("nothing has changed: 1 document,")
    assert all("failed, will" in line for line in said[1:-1]), "nothing was taken for gone meanwhile"
