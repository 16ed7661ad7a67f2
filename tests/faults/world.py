"""What the fault tests work on: folders of pages, an archive, an index, and everything that writes one."""

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from indexer.errors import IndexMissing
from indexer.generation.generation import Generation
from indexer.generation.manifest import BUILDING, CURRENT, GENERATIONS, LOCK, PUSHED
from indexer.pipeline.build import remove_sources
from indexer.pipeline.progress import Progress
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.publish import generation_ids, prepare, problems_of, roll_back, verify
from indexer.records import Page
from indexer.sources.pushed_store import SOURCE, PushedStore
from tests.building import build_index
from tests.dummy import DummyEmbedder

KEEP = 2
Content = tuple[tuple[str, str], ...]  # id and text of every chunk


@dataclass(frozen=True)
class State:
    """What is live."""

    generation: str
    content: Content


class World:
    """The folder that everything is in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = [str(root / "docs"), str(root / "more")]
        self.archive = root / "archive.tar"
        self.archived = root / "archived"  # an index whose live generation is in the archive
        # an index with two generations, of which the newer one lacks a page that `docs` has by now
        self.index = root / "index"

    def make(self, pages: int = 0) -> None:
        """Write it all; with so many pages more, a build takes longer."""
        docs, more = (Path(source) for source in self.sources)
        docs.mkdir()
        more.mkdir()
        (docs / "cats.html").write_text("<h1>Cats</h1><p>Cats sleep.<h2 id=food>Food</h2><p>Cats eat fish.")
        (docs / "dogs.md").write_text("# Dogs\n\nDogs bark.\n")
        (more / "birds.txt").write_text("Birds sing, and some eat fish.")
        for number in range(pages):
            (more / f"{number}.txt").write_text(f"Page {number}\n\n" + f"Text {number} about fish. " * 40)
        rebuild(self.index, *self.sources)
        (docs / "mice.md").write_text("# Mice\n\nMice fear cats.\n")
        rebuild(self.archived, *self.sources)
        export_archive(self.archived, self.archive)
        (docs / "mice.md").unlink()
        (docs / "dogs.md").write_text("# Dogs\n\nDogs bark at cats.\n")
        rebuild(self.index, *self.sources)
        (docs / "owls.md").write_text("# Owls\n\nOwls hoot.\n\n## Food\n\nOwls eat mice.\n")


def rebuild(index: Path, *sources: str | Path, full: bool = False) -> str:
    """Build an index of these sources; return the id of what is then live."""
    return build_index(index, *sources, keep_generations=KEEP, full=full).generation


def quiet() -> Progress:
    return Progress(sys.stderr, quiet=True)


PUSHES = (("cats", "First."), ("cats", "Second."), ("gone", "Gone."), ("gone", None), ("dogs", "Third."))


def accepted(index: Path) -> Path:
    """A file beside an index, with a byte for each of PUSHES whose sender was told that it is accepted."""
    return index.with_name(f"{index.name}.accepted")


def _push(world: World, index: Path) -> None:
    prepare(index)
    store = PushedStore(index)
    for name, text in PUSHES:
        url = f"https://wiki.test/{name}"
        if text is None:
            store.remove(url)
        else:
            moment = "2026-11-20T04:00:00+00:00"
            store.put(Page(url, SOURCE, text.encode(), "text/plain", "utf-8", None, None, moment))
        with accepted(index).open("ab", buffering=0) as file:
            file.write(b".")
    rebuild(index, *world.sources)


def import_all() -> None:
    """Import what actions use only when they run, so that a fault does not meet an import."""
    import rag.insights.report
    import rag.jobs.builds
    import rag.jobs.jobs
    import rag.serving.live  # noqa: F401


def _send(world: World, index: Path) -> None:
    """Push documents as a server does, and index them."""
    from rag.jobs.builds import PushedBuilder
    from rag.jobs.pushes import PushedQueue
    from rag.messages import Push
    from rag.settings import load

    settings = load({"index": str(index)}, {})
    queue = PushedQueue(settings)
    for name, text in PUSHES:
        if text is None:
            queue.delete(f"https://wiki.test/{name}")
        else:
            queue.put(Push(f"https://wiki.test/{name}", text))
    PushedBuilder(settings, lambda _: DummyEmbedder()).build(index)


def _read(world: World, index: Path) -> None:
    """Open an index, search it and read its documents."""
    from rag.query.request import SearchRequest
    from rag.query.retriever import Retriever

    with closing(Generation.open(index)) as generation:
        assert Retriever(generation, DummyEmbedder()).answer_query(SearchRequest("fish", facets=True)).hits
        assert [*generation.documents()]


def _serve(world: World, index: Path) -> None:
    """Follow an index; what fails once is tried again."""
    from rag.query.request import SearchRequest
    from rag.serving.follower import Follower
    from rag.serving.live import LiveRetriever
    from rag.settings import load

    follower = Follower(load({"index": str(index)}, {}), lambda _: DummyEmbedder())
    follower.has_refreshed = True
    retriever = LiveRetriever(follower)
    for attempt in range(3):
        follower._refresh()
        for served in follower.collections.values():
            served.retry_at = 0.0
            assert "\n" not in served.reason
            assert "internal error" not in served.reason, served.reason
        if attempt:
            assert retriever.search(SearchRequest("fish")).hits


def _note(world: World, index: Path) -> None:
    """Record searches; what could not be written is written the next time, once."""
    from rag.errors import InsightsError
    from rag.insights.report import report
    from rag.insights.store import Recorder
    from rag.query.results import Answer

    recorder = Recorder(index / "insights", 9)
    for query in ("one", "two"):
        recorder.record(Answer(query, [], {"total": 1.0}, "g"), "api")
        recorder._write()
    recorder._write()
    try:
        total = report(index / "insights", 9).total
    except InsightsError:  # as it says; the one call that failed succeeds the next time
        total = report(index / "insights", 9).total
    assert total.asked == 2


ACTIONS: Mapping[str, Callable[[World, Path], object]] = {
    "build": lambda world, index: rebuild(index, *world.sources),
    "rebuild": lambda world, index: rebuild(index, *world.sources, full=True),
    "push": _push,
    "send": _send,
    "read": _read,
    "serve": _serve,
    "note": _note,
    "remove": lambda world, index: remove_sources(world.sources[1:], index, keep_generations=KEEP, progress=quiet()),
    "rollback": lambda _, index: roll_back(index, generation_ids(index)[1]),
    "export": lambda world, folder: export_archive(world.archived, folder / world.archive.name),
    "import": lambda world, index: import_archive(index, world.archive, keep_generations=KEEP),
}


def state(index: Path, *, checked: bool = True) -> State | None:
    """Open the live generation, if there is one; if all are to be `checked`, they must be whole."""
    generations = index / GENERATIONS
    for folder in generations.iterdir() if checked and generations.is_dir() else ():
        problems = problems_of(verify(folder))
        assert problems == [], f"{folder}: {problems}"
    try:
        generation = Generation.open(index)
    except IndexMissing:
        return None
    with closing(generation):
        chunks = generation.chunks(np.arange(generation.manifest.counts.chunks))
        return State(generation.manifest.id, tuple((chunk.id, chunk.text) for chunk in chunks))


def live(index: Path, *, checked: bool = True) -> State:
    """The same, where there must be one."""
    found = state(index, checked=checked)
    assert found is not None
    return found


def assert_tidy(index: Path) -> None:
    """Nothing is left of what was begun and not ended."""
    assert {entry.name for entry in index.iterdir()} - {PUSHED} == {CURRENT, GENERATIONS, BUILDING, LOCK}
    assert list((index / BUILDING).iterdir()) == []
    assert len(list((index / GENERATIONS).iterdir())) <= KEEP
    assert (index / LOCK).read_bytes() == b""
