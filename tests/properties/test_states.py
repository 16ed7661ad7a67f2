"""Random sequences of everything that changes an index, held against a model after each step."""

import faulthandler
import io
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from indexer.config import BuildConfig
from indexer.errors import NothingToIndex, SourceError
from indexer.generation.generation import Generation
from indexer.generation.manifest import collection_dir, generation_folder
from indexer.pipeline.build import build, remove_sources
from indexer.pipeline.progress import BuildReport, Progress
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.publish import drop_collection, generation_ids, live_id, problems_of, verify
from indexer.read.reader_main import preload
from indexer.read.reader_process import ReaderProcess
from indexer.sources.pushed_store import SOURCE, PushedStore
from indexer.stores import FolderStore
from rag.access import Grant, KeyFile
from rag.jobs.builds import PushedBuilder
from rag.jobs.pushes import PushedQueue
from rag.query.request import Filter
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from rag.stores import older_ids, roll_back
from tests.dummy import DummyEmbedder
from tests.faults.killer import read_here
from tests.properties.checks import ServerChecks
from tests.properties.library import CALLERS, NOTHING, Contents, Files, Readers, Refused, Text, predict
from web.app import create_app

Result = TypeVar("Result")
COLLECTIONS = ("default", "notes")
FOLDERS = ("a", "a/sub", "b")
PATHS = (
    *("a/one.md", "a/two.md", "a/three.html", "a/sub/one.md", "a/sub/two.md", "a/sub/deep/one.md"),
    *("b/one.md", "b/two.html", "b/1.2/page.md", "b/1.3/page.md", "b/1.2/other.md", "b/1.3/other.md"),
)
LISTS = ("a/.access.toml", "a/sub/.access.toml", "a/sub/one.md.access.toml", "b/one.md.access.toml", "b/.access.toml")
URLS = ("https://wiki.test/one", "https://wiki.test/two", "https://wiki.test/three")
EVENTS = frozenset("open os.rename os.remove os.mkdir os.rmdir sqlite3.connect".split())

collections = st.sampled_from(COLLECTIONS)
groups = st.sampled_from([None, None, None, ("staff",), ("board",), ()])
stops = st.none() | st.integers(1, 250)  # steps after which an action is interrupted
texts = st.builds(
    Text,
    number=st.integers(1, 10**6),
    language=st.sampled_from(["en", "en", "de"]),
    date=st.sampled_from(["2026-01-31", "2026-05-01"]),
    team=st.sampled_from([None, "core"]),
    readers=groups,
)


class Interrupted(BaseException):
    """What an action is interrupted by."""


class _Interrupter:
    """Raises Interrupted at a step that a thread takes below a folder."""

    def __init__(self) -> None:
        self.folder, self.steps = "", 0
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.steps and event in EVENTS and str(arguments[0]).removeprefix("file://").startswith(self.folder):
            self.steps -= 1
            if not self.steps:
                raise Interrupted


class Library(ServerChecks, RuleBasedStateMachine):
    """An index of two collections with its server, and what both should have."""

    interrupter: _Interrupter
    run_seed = 0

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="library-"))
        self.index = self.root / "index"
        self.files = Files(self.root / "files")
        for folder in FOLDERS:
            (self.files.root / folder).mkdir(parents=True)
        self.settings = load({"index": str(self.index), "rate_limit": "0", "deadline": "600"}, {})
        self.live: dict[str, Contents] = {}
        self.published: dict[str, Contents] = {}  # by generation
        self.pushed: dict[str, dict[str, Text | None]] = {name: {} for name in COLLECTIONS}
        self.archived: tuple[str, Contents] | None = None
        self.dice = random.Random(self.run_seed)
        self.keys = self._make_keys()
        self.start()

    def teardown(self) -> None:
        self.retriever.close()
        shutil.rmtree(self.root)

    def _make_keys(self) -> dict[str, dict[str, str]]:
        keys = KeyFile(self.settings.keys_file)
        headers = {}
        for name, caller in CALLERS.items():
            readers = None if caller.groups is None else frozenset(f"group:{each}" for each in caller.groups)
            filter = Filter(language=(caller.language,)) if caller.language else None
            role, part = ("write" if name == "admin" else "read"), Grant(caller.collections, filter, readers)
            headers[name] = {"Authorization": f"Bearer {keys.add(name, role, grant=part)}"}
        return headers

    # What happens to files

    @rule(path=st.sampled_from(PATHS), text=texts)
    def write(self, path: str, text: Text) -> None:
        self.files.write(path, text)

    @rule(path=st.sampled_from(PATHS))
    def empty(self, path: str) -> None:
        self.files.write(path, None)

    @rule(path=st.sampled_from(PATHS), to=st.sampled_from(PATHS))
    def rename(self, path: str, to: str) -> None:
        if path in self.files.texts and path != to:
            self.files.write(to, self.files.remove(path))

    @rule(path=st.sampled_from(PATHS[:8]), to=st.sampled_from(PATHS[:8]))
    def copy(self, path: str, to: str) -> None:
        if path in self.files.texts:
            self.files.write(to, self.files.texts[path])

    @rule(path=st.sampled_from(PATHS))
    def delete(self, path: str) -> None:
        if path in self.files.texts:
            self.files.remove(path)

    @rule(folder=st.sampled_from(FOLDERS))
    def delete_most(self, folder: str) -> None:
        for path in [each for each in self.files.texts if each.startswith(f"{folder}/")][1:]:
            self.files.remove(path)

    @rule(path=st.sampled_from(LISTS), readers=groups)
    def close_folder(self, path: str, readers: Readers) -> None:
        self.files.close(path, readers)

    # What happens to an index

    @initialize(some=st.lists(texts, min_size=len(PATHS), max_size=len(PATHS), unique_by=lambda text: text.number))
    def fill(self, some: list[Text]) -> None:
        for path, text in zip(PATHS, some, strict=True):
            self.files.write(path, text)
        self.build("default", set(FOLDERS))

    @rule(
        name=collections, folders=st.sets(st.sampled_from(FOLDERS), min_size=1), stop=stops,
        full=st.booleans(), allow_shrink=st.booleans(),
    )  # fmt: skip
    def build(
        self, name: str, folders: set[str], stop: int | None = None, full: bool = False, allow_shrink: bool = False
    ) -> None:
        live = self.live.get(name, NOTHING)
        chosen = [str(self.files.root / folder) for folder in sorted(folders)]
        sources = list(dict.fromkeys([*live.sources, *chosen]))
        refresh = {*chosen}
        config = BuildConfig(refresh=refresh, full=full, allow_shrink=allow_shrink, keep_generations=2)
        pushed = self.pushed[name]

        def run() -> BuildReport:
            return build(sources, collection_dir(self.index, name), DummyEmbedder(), config, progress=_quiet())

        try:
            new = predict(live, sources, refresh, self.files, pushed, full=full, allow_shrink=allow_shrink)
        except Refused:
            with pytest.raises((SourceError, NothingToIndex)):
                run()
            return
        report = self.interrupted(name, new, run, stop)
        if report is not None:
            assert report.documents == len(new.documents)

    @precondition(lambda self: self.live)
    @rule(name=collections, folders=st.sets(st.sampled_from([*FOLDERS, SOURCE]), min_size=1, max_size=2), stop=stops)
    def remove(self, name: str, folders: set[str], stop: int | None) -> None:
        live = self.live.get(name, NOTHING)
        sources = {source if source == SOURCE else str(self.files.root / source) for source in folders}
        folder, quiet = collection_dir(self.index, name), _quiet()
        if name not in self.live:
            return
        new = live.without(sources)
        if sources - {*live.sources} or not new.documents:
            with pytest.raises((SourceError, NothingToIndex)):
                remove_sources([*sources], folder, keep_generations=2, progress=quiet)
            return
        done = lambda: remove_sources([*sources], folder, keep_generations=2, progress=quiet)  # noqa: E731
        self.interrupted(name, new, done, stop)
        if SOURCE in sources:
            left = {url for url, *_ in PushedStore(folder).listed()}
            assert stop or not left
            self.pushed[name] = {url: text for url, text in self.pushed[name].items() if url in left}

    @rule(name=collections, url=st.sampled_from(URLS), text=texts)
    def push(self, name: str, url: str, text: Text) -> None:
        body: dict[str, Any] = {"url": url, "collection": name, "text": " ".join(text.words), "title": text.title}
        body |= {"language": text.language, "date": text.date, "metadata": {"team": text.team}}
        body |= {"access": {"groups": text.readers}} if text.readers is not None else {}
        answer = self.client.post("/api/v1/documents", json=body, headers=self.keys["admin"])
        assert answer.status_code == 202, answer.text
        self.pushed[name][url] = text

    @rule(name=collections, url=st.sampled_from(URLS))
    def withdraw(self, name: str, url: str) -> None:
        query, pushed = {"url": url, "collection": name}, self.pushed[name]
        entry = self.live.get(name, NOTHING).pages.get(url)
        is_there = pushed[url] is not None if url in pushed else entry is not None and entry.source == SOURCE
        answer = self.client.delete("/api/v1/documents", query_string=query, headers=self.keys["admin"])
        assert answer.status_code == (202 if is_there else 404), answer.text
        if is_there:
            pushed[url] = None

    @rule(name=collections, stop=stops)
    def index_pushed(self, name: str, stop: int | None) -> None:
        if self.pushed[name]:
            live, pushed = self.live.get(name, NOTHING), self.pushed[name]
            builder = PushedBuilder(self.settings, lambda _: DummyEmbedder())
            try:
                new = predict(live, [*live.sources], set(), self.files, pushed)
            except Refused:
                with pytest.raises((SourceError, NothingToIndex)):
                    builder.build(collection_dir(self.index, name))
                return
            self.interrupted(name, new, lambda: builder.build(collection_dir(self.index, name)), stop)
            if not stop:
                assert PushedStore(collection_dir(self.index, name)).facts().queued == 0

    @rule(name=collections, stop=stops)
    def go_back(self, name: str, stop: int | None) -> None:
        if name in self.live:
            store = FolderStore(collection_dir(self.index, name))
            if older := older_ids(store):
                self.interrupted(name, self.published[older[0]], lambda: roll_back(store), stop)

    @rule(name=collections)
    def export(self, name: str) -> None:
        if name in self.live:
            manifest = export_archive(collection_dir(self.index, name), self.root / "archive.tar")
            self.archived = (manifest.id, self.live[name])

    @precondition(lambda self: self.archived)
    @rule(name=collections, stop=stops)
    def bring_in(self, name: str, stop: int | None) -> None:
        assert self.archived
        archive = self.root / "archive.tar"
        arguments: dict[str, Any] = {"collection": name, "keep_generations": 2}
        self.interrupted(name, self.archived[1], lambda: import_archive(self.index, archive, **arguments), stop)

    @precondition(lambda self: "notes" in self.live)
    @rule()
    def drop(self) -> None:
        drop_collection(self.index, "notes")
        del self.live["notes"]
        self.pushed["notes"] = {}

    @rule()
    def restart(self) -> None:
        self.retriever.close()
        self.start()

    def start(self) -> None:
        """Start a server, which looks at the index when it is told to."""
        self.follower = Follower(self.settings, lambda _: DummyEmbedder())
        self.follower.has_refreshed = True
        self.retriever = LiveRetriever(self.follower)
        app = create_app(self.retriever, self.settings, pushes=PushedQueue(self.settings))
        self.client = app.test_client()

    def interrupted(self, name: str, new: Contents, run: Callable[[], Result], stop: int | None) -> Result | None:
        """Run an action, interrupt it at a step, and look whether the index is as before or as it should be then."""
        folder = collection_dir(self.index, name)
        before = live_id(folder)
        result = None
        self.interrupter.folder, self.interrupter.steps = str(folder), stop or 0
        try:
            result = run()
        except Interrupted:
            pass
        finally:
            self.interrupter.steps = 0
        after = live_id(folder)
        for each in generation_ids(folder):  # one may be there whole, though it was not made live
            self.published.setdefault(each, new)
        if result is None and after == before:
            return None
        assert after is not None
        if after == before:
            assert self.live[name].documents == new.documents
        self.live[name] = new
        assert self.published.setdefault(after, new).documents == new.documents
        return result

    # What holds after each step

    @invariant()
    def is_as_the_model_says(self) -> None:
        self.follower._refresh()
        status = {each["name"]: each for each in self.retriever.status()["collections"]}
        if self.live:
            assert {name for name, each in status.items() if each["ready"]} == {*self.live}
        metrics = self.client.get("/metrics", headers=self.keys["admin"]).text
        for name, contents in self.live.items():
            folder = collection_dir(self.index, name)
            ids = generation_ids(folder)
            assert live_id(folder) in ids
            assert len(ids) <= 3
            for each in ids:
                assert problems_of(verify(generation_folder(folder, each))) == []
                with closing(Generation.open(folder, each)) as generation:
                    urls = {document["url"] for document in generation.documents()}
                    is_restricted = generation.manifest.is_restricted
                entries = self.published[each].documents
                assert urls == {*entries}
                lists = [(entry.stated, entry.text and entry.text.readers) for entry in entries.values()]
                assert is_restricted == any(names != (None, None) for names in lists)
            number = len(contents.documents)
            assert (status[name]["generation"], status[name]["documents"]) == (live_id(folder), number)
            assert f'pilotlight_index_documents{{collection="{name}"}} {float(number)}' in metrics
            for caller in CALLERS:
                self.check_documents(caller, name)
            self.check_searches(self.dice.choice([*CALLERS]), name)
        if len(self.live) > 1:
            self.check_joint(self.dice.choice([*CALLERS]))


def _quiet() -> Progress:
    return Progress(io.StringIO(), quiet=True)


def test_random_sequences(
    monkeypatch: pytest.MonkeyPatch, run_seed: int, random_seconds: float, pytestconfig: pytest.Config
) -> None:
    """Sequences are made until the time is over; the first is the same with the same seed."""
    if pytestconfig.option.long:
        faulthandler.cancel_dump_traceback_later()  # pytest's limit for a test that hangs is as long
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of docutils
        preload()
    monkeypatch.setattr(ReaderProcess, "ask", read_here)
    monkeypatch.setattr(Library, "interrupter", _Interrupter(), raising=False)
    kept = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    rules = settings(
        max_examples=3, stateful_step_count=25, deadline=None, database=None, suppress_health_check=kept,
        phases=[Phase.generate, *[Phase.shrink] * pytestconfig.option.long], print_blob=False,
    )  # fmt: skip
    end, turn = time.monotonic() + random_seconds, 0
    while turn == 0 or time.monotonic() < end:
        seed(run_seed + turn)(Library)
        monkeypatch.setattr(Library, "run_seed", run_seed + turn)
        run_state_machine_as_test(Library, settings=rules)
        turn += 1
