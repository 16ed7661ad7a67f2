"""Indexes that follow their sources: real folders, a real site, real signals."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.errors import SourceError
from indexer.generation.current import current_id
from indexer.generation.layout import collection_dir
from indexer.publish.held_back import HeldBack
from indexer.sources.schedule import ScheduledSource
from rag.serving.build_scheduler import BuildScheduler, scheduled_sources
from rag.settings import load
from rag.settings_file import ConfiguredSource
from tests.dummy import DummyEmbedder
from tests.indexer.server import Reply, Site

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=20.0))
HUNG = 30  # seconds, after which a test that waits for a change that never comes fails


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cats.txt").write_text("Cats purr.")
    return folder


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("indexer.crawl.fetch._BACKOFF", 0.01)
    server = Site()
    server.pages(index="<h1>Zoo</h1><p>Zebras have stripes.")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    def hung(*_: object) -> None:
        raise TimeoutError("nothing happened")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(HUNG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def keep(
    tmp_path: Path, *entries: ScheduledSource, steps: list[Callable[[], object]]
) -> tuple[BuildScheduler, list[str]]:
    """Keep an index fresh; after each run comes the next step, and after the last the process is told to stop."""
    said: list[str] = []
    todo = iter([*steps, lambda: os.kill(os.getpid(), signal.SIGTERM)])

    def say(text: str) -> None:
        said.append(text)
        next(todo)()

    settings = load({"index": str(tmp_path / "index")}, {})
    work = BuildScheduler(settings, CONFIG, DummyEmbedder(), {entry: {} for entry in entries}, quiet=True, say=say)
    work.keep()
    return work, said


def documents(index: Path) -> dict[str, str]:
    path = index / "generations" / current_id(index) / "documents.sqlite"
    with sqlite3.connect(path) as database:
        return dict(database.execute("SELECT url, metadata FROM documents"))


def test_a_watched_folder_is_followed(tmp_path: Path, notes: Path) -> None:
    dogs = tmp_path / "dogs.txt"
    dogs.write_text("Dogs bark.")
    work, said = keep(
        tmp_path,
        ScheduledSource(str(notes), watched=True),
        steps=[
            lambda: dogs.rename(notes / "dogs.txt"),  # at once, so that it is never seen empty
            lambda: (notes / "cats.txt").unlink(),
        ],
    )
    assert [line.partition(", 0 failed")[0].partition(": generation")[0] for line in said] == [
        "default: 1 new, 0 changed, 0 gone, 0 unchanged",
        "default: 1 new, 0 changed, 0 gone, 1 unchanged",
        "default: 0 new, 0 changed, 1 gone, 1 unchanged",
    ]
    assert work.as_dict() == {"runs": 3, "published": 3, "held_back": 0, "failed": 0}
    assert list(documents(tmp_path / "index")) == [(notes / "dogs.txt").as_uri()]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_site_is_read_again_and_the_folder_beside_it_is_not(tmp_path: Path, notes: Path, site: Site) -> None:
    def change() -> None:
        (notes / "dogs.txt").write_text("Dogs bark.")
        site.pages(index="<h1>Zoo</h1><p>Zebras have spots after all.")

    work, said = keep(
        tmp_path, ScheduledSource(site.url, every=0.1), ScheduledSource(str(notes)), steps=[change, lambda: None]
    )
    assert "default: 0 new, 1 changed, 0 gone, 1 unchanged" in said[1]
    assert said[2].startswith("default: nothing has changed: 2 documents")
    assert (work.runs, work.published) == (3, 2)


def test_what_cannot_be_read_keeps_nothing_else_and_is_tried_again(tmp_path: Path, notes: Path, site: Site) -> None:
    good = site.routes["/"]

    def recover() -> None:
        site.routes["/"] = good

    site.routes["/"] = Reply(b"", 503, {})
    work, said = keep(
        tmp_path, ScheduledSource(str(notes)), ScheduledSource(site.url, every=0.1), steps=[lambda: None, recover]
    )
    assert "1 new" in said[0]
    assert "failed, will retry" in said[1]
    assert "1 new, 0 changed, 0 gone, 1 unchanged" in said[2]
    assert work.as_dict() == {"runs": 3, "published": 2, "held_back": 0, "failed": 1}


def test_a_site_that_goes_down_stays_in_the_index(tmp_path: Path, site: Site) -> None:
    def fall() -> None:
        site.routes["/"] = Reply(b"", 503, {})

    _, said = keep(tmp_path, ScheduledSource(site.url, every=0.1), steps=[fall])
    assert "failed, will retry" in said[1]
    assert len(documents(tmp_path / "index")) == 1


def test_a_folder_that_is_taken_away_and_put_back(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.sources.schedule.RETRY", 0.1)
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

    settings = load({"index": str(tmp_path / "index")}, {})
    entries = {ScheduledSource(str(notes), watched=True): dict[str, tuple[str, ...]]()}
    BuildScheduler(settings, CONFIG, DummyEmbedder(), entries, quiet=True, say=say).keep()
    assert "failed, will retry" in said[1]
    assert said[-1].startswith("default: nothing has changed: 1 document,")
    assert all("failed, will" in line for line in said[1:-1]), "nothing was taken for gone meanwhile"


def test_a_restart_does_not_read_a_site_early(tmp_path: Path, notes: Path, site: Site) -> None:
    both = (ScheduledSource(site.url, every=3600.0), ScheduledSource(str(notes), watched=True))
    assert "2 new" in keep(tmp_path, *both, steps=[])[1][0]
    site.hits.clear()
    (notes / "dogs.txt").write_text("Dogs bark.")
    assert "1 new, 0 changed, 0 gone, 2 unchanged" in keep(tmp_path, *both, steps=[])[1][0]
    assert site.hits == [], "only the folder was due"
    keep(tmp_path, ScheduledSource(site.url, every=0.1), both[1], steps=[lambda: None])
    assert "/" in site.hits, "it is due by another interval"


@pytest.mark.parametrize("why", ["metadata", "limits", "damaged", "full", "gone"])
def test_a_restart_reads_at_once_what_would_be_read_otherwise(
    tmp_path: Path, notes: Path, site: Site, why: str
) -> None:
    entry, folder = ScheduledSource(site.url, every=3600.0), ScheduledSource(str(notes), every=3600.0)
    keep(tmp_path, entry, folder, steps=[])
    site.hits.clear()
    if why == "damaged":
        (tmp_path / "index" / "readings.json").write_text('{"default": {"x": [')
    if why == "gone":
        keep(tmp_path, ScheduledSource(str(notes), every=0.1), steps=[lambda: None])
    config = (
        BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=20.0, max_depth=3)) if why == "limits" else CONFIG
    )
    metadata: dict[str, tuple[str, ...]] = {"team": ("core",)} if why == "metadata" else {}

    def say(text: str) -> None:
        if site.hits:
            os.kill(os.getpid(), signal.SIGTERM)

    settings = load({"index": str(tmp_path / "index")}, {})
    entries = {entry: metadata, folder: dict[str, tuple[str, ...]]()}
    BuildScheduler(settings, config, DummyEmbedder(), entries, full=why == "full", quiet=True, say=say).keep()
    assert "/" in site.hits


def test_collections_and_metadata(tmp_path: Path, notes: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "birds.md").write_text("---\nteam: birds\n---\n\nBirds sing.\n")
    sources = [
        ConfiguredSource(str(other), collection="team", metadata={"team": ("core",), "for": ("a", "b")}),
        ConfiguredSource(str(notes)),
    ]
    settings = load({"index": str(tmp_path / "index")}, {})

    def once(metadata: dict[str, tuple[str, ...]]) -> dict[str, object]:
        entries = scheduled_sources([*sources[:1], ConfiguredSource(str(notes), metadata=metadata)], "default")
        reports = BuildScheduler(settings, CONFIG, DummyEmbedder(), entries, quiet=True).once()
        return {name: report.published for name, report in reports.items()}

    assert once({}) == {"default": True, "team": True}
    assert list(documents(collection_dir(settings.index_dir, "team")).values()) == [
        '{"team": "birds", "for": ["a", "b"]}'
    ]
    assert once({}) == {"default": False, "team": False}
    assert once({"kind": ("note",)}) == {"default": True, "team": False}
    assert list(documents(settings.index_dir).values()) == ['{"kind": "note"}']


def test_entries_of_the_command_line() -> None:
    both = [ConfiguredSource("https://t.test/"), ConfiguredSource("/notes")]
    assert list(scheduled_sources(both, "c", every=60.0)) == [
        ScheduledSource("https://t.test/", "c", 60.0),
        ScheduledSource("/notes", "c", 60.0),
    ]
    assert list(scheduled_sources(both, "c", every=60.0, watch=True)) == [
        ScheduledSource("https://t.test/", "c", 60.0),
        ScheduledSource("/notes", "c", None, watched=True),
    ]
    own = [ConfiguredSource("/a", every=9.0), ConfiguredSource("/b", "d", watch=True)]
    assert list(scheduled_sources(own, "c", every=60.0)) == [
        ScheduledSource("/a", "c", 9.0),
        ScheduledSource("/b", "d", None, watched=True),
    ]
    with pytest.raises(SourceError, match="cannot be watched"):
        scheduled_sources(both, "c", watch=True)


def test_it_ends_by_itself_where_nothing_can_become_due(tmp_path: Path, notes: Path) -> None:
    settings = load({"index": str(tmp_path / "index")}, {})
    work = BuildScheduler(settings, CONFIG, DummyEmbedder(), {ScheduledSource(str(notes)): {}}, quiet=True)
    work.keep()
    assert work.runs == 1


def test_what_is_held_back_is_counted_and_read_again_at_the_next_start(tmp_path: Path, notes: Path) -> None:
    entry = ScheduledSource(str(notes), every=3600)
    settings = load({"index": str(tmp_path / "index")}, {})

    first = BuildScheduler(settings, CONFIG, DummyEmbedder(), {entry: {}}, quiet=True).once()["default"].generation
    (notes / "cats.txt").write_text("Cats purr, and are held back.")
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        os.kill(os.getpid(), signal.SIGTERM)

    (tmp_path / "index" / "readings.json").unlink()
    work = BuildScheduler(
        settings,
        CONFIG,
        DummyEmbedder(),
        {entry: {}},
        quiet=True,
        say=say,
        judge=lambda live, draft: HeldBack(draft.name, f"worse than {live.name}"),
    )
    work.keep()
    assert work.as_dict() == {"runs": 1, "published": 0, "held_back": 1, "failed": 0}
    assert said[0].startswith("default: held back: generation ")
    assert said[0].endswith(f"worse than {first}")
    assert not (tmp_path / "index" / "readings.json").exists()
