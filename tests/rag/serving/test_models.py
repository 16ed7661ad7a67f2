"""Collections of several models in one process: changing the model of one under load, and back."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from embedder.engines.plan import resolve_precision
from embedder.errors import EmbedderError, ModelError
from indexer.publish.publish import roll_back
from rag.errors import FingerprintMismatch, ModelMissing, NotReady
from rag.models import known_models, loaded_models, memory_room
from rag.query.request import SearchRequest
from rag.serving.live import LiveRetriever
from rag.serving.preflight import check_servable
from rag.settings import Settings, load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for


class Machine:
    """A machine with an index, and models by their names: what is loaded of them, and what is wrong with them."""

    def __init__(self, site: Site, settings: Settings) -> None:
        self.site = site
        self.settings = settings
        self.loaded: list[str] = []
        self.alive: weakref.WeakSet[DummyEmbedder] = weakref.WeakSet()
        self.before: Callable[[str], object] = lambda name: None  # it is loaded

    def load(self, settings: Settings) -> DummyEmbedder:
        self.before(settings.model)
        self.loaded.append(settings.model)
        made = embedder_of(settings.model)
        self.alive.add(made)
        return made

    def prepare(self, name: str, size: int = 1000) -> None:
        """Do what `warm` does."""
        precision = resolve_precision("auto")
        plan: Any = SimpleNamespace(fingerprint=embedder_of(name).fingerprint, precision=precision, engine="native")
        plan.parts = ()
        known_models.remember(load({"model": name, "cache_dir": str(self.settings.cache)}, {}), plan)

    def build(self, name: str, collection: str = "default") -> str:
        return self.site.build(embedder_of(name), collection=collection)

    def serve(self, **changes: str) -> LiveRetriever:
        return LiveRetriever(load({**options(self.site), **changes}, {}), self.load)


def options(site: Site) -> dict[str, str]:
    return {"index": str(site.index), "model": "old", "cache_dir": str(site.index.parent / "cache")}


def embedder_of(name: str) -> DummyEmbedder:
    return DummyEmbedder(dimension=32 if name == "small" else 64, name=name)


@pytest.fixture
def machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.02)
    return Machine(site, load(options(site), {}))


@pytest.fixture
def live(machine: Machine) -> Iterator[LiveRetriever]:
    retriever = machine.serve()
    yield retriever
    retriever.close()


def models(live: LiveRetriever) -> dict[str, list[str]]:
    return {model["name"]: model["collections"] for model in live.status()["models"]}


def generation(live: LiveRetriever, collection: str = "default") -> Any:
    return {each["name"]: each.get("generation") for each in live.status()["collections"]}.get(collection)


def test_a_change_of_model_under_load_and_back(machine: Machine, live: LiveRetriever) -> None:
    first = machine.build("old")
    machine.prepare("old")
    machine.prepare("small")
    live.start()
    wait_for(lambda: live.ready)
    seen: set[str] = set()
    failures: list[BaseException] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.01):
            try:
                [embedded] = live.embed_queries(["partial index"])
                for given in (None, embedded):  # the second may be of a model that is not used any more
                    answer = live.search(SearchRequest("partial index", mode="dense"), given)
                    assert answer.hits[0].title == "Partial indexes"
                    seen.add(answer.generation)
                live.embed(["a text"])
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: first in seen or failures)
    second = machine.build("small")
    wait_for(lambda: second in seen or failures)
    wait_for(lambda: models(live) == {"small": ["default"]} or failures)
    seen.clear()
    assert roll_back(machine.site.index) == first
    wait_for(lambda: first in seen or failures)
    wait_for(lambda: models(live) == {"old": ["default"]} or failures)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert machine.loaded == ["old", "small", "old"]
    assert (live.status()["reason"], live.status()["model"]) == ("", "old")
    wait_for(lambda: gc.collect() is not None and {one.dimension for one in machine.alive} == {64})


def test_the_old_model_answers_while_the_new_one_loads(machine: Machine, live: LiveRetriever) -> None:
    go, first = threading.Event(), machine.build("old")
    machine.prepare("small")
    live.start()
    wait_for(lambda: live.ready)
    machine.before = lambda name: go.wait(30)
    second = machine.build("small")
    wait_for(lambda: "loading the model" in live.status()["reason"])
    assert live.status()["reason"].endswith(f"meanwhile generation {first} is served")
    assert live.search(SearchRequest("vacuum")).generation == first
    go.set()
    wait_for(lambda: generation(live) == second)


def test_collections_have_models_of_their_own(machine: Machine, live: LiveRetriever) -> None:
    default, other = machine.build("old"), machine.build("small", "manuals")
    machine.prepare("small")
    live.start()
    wait_for(lambda: generation(live, "manuals"))
    assert models(live) == {"old": ["default"], "small": ["manuals"]}
    collections = ["manuals", "default", "manuals"]
    embedded = live.embed_queries(["vacuum", "vacuum", "fsync"], collections)
    assert [len(each.vector) for each in embedded] == [32, 64, 32]
    requests = [SearchRequest("vacuum", collection=name) for name in collections]
    found = [live.search(*both).generation for both in zip(requests, embedded, strict=True)]
    assert found == [other, default, other]
    assert live.search(requests[0], embedded[1]).generation == other  # whose vector would not fit
    assert live.embed(["a", "b"], model="small").vectors.shape == (2, 32)
    assert live.embed(["a b"])[1:] == (4, "old")
    with pytest.raises(ModelMissing, match="no model 'large' here; there are: old, small"):
        live.embed(["a"], model="large")
    machine.build("old", "manuals")
    wait_for(lambda: models(live) == {"old": ["default", "manuals"]})


def test_only_what_is_needed_is_loaded(machine: Machine, live: LiveRetriever) -> None:
    machine.build("small")
    machine.prepare("old")
    machine.prepare("small")
    check_servable(machine.settings, embedder_of("old").fingerprint)
    live.start()
    assert live.search(SearchRequest("vacuum")).hits
    assert machine.loaded == ["small"]
    assert live.embed(["a"]).model == live.status()["model"] == "small"


def test_a_model_that_is_not_known_waits_until_it_is(machine: Machine, live: LiveRetriever) -> None:
    first = machine.build("old")
    live.start()
    wait_for(lambda: live.ready)
    second = machine.build("small")
    wait_for(lambda: "another embedder" in live.status()["reason"])
    assert "pilotlight warm" in live.status()["reason"]
    assert live.search(SearchRequest("vacuum")).generation == first
    assert machine.loaded == ["old"]
    machine.prepare("small")
    wait_for(lambda: generation(live) == second)
    assert live.status()["reason"] == ""


def test_other_models_can_be_turned_off(machine: Machine) -> None:
    machine.build("small")
    machine.prepare("small")
    live = machine.serve(other_models="off")
    live.start()
    with pytest.raises(NotReady, match="another embedder"):
        live.search(SearchRequest("vacuum"))
    live.close()
    with pytest.raises(FingerprintMismatch):
        check_servable(load({**options(machine.site), "other_models": "off"}, {}), embedder_of("old").fingerprint)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelError("weights are missing"), "model small cannot be loaded: weights are missing"),
        (OSError(5, "Input/output error"), "model small cannot be loaded: Input/output error"),
        (MemoryError(), "there is no memory for model small"),
        (EmbedderError("the model gave NaN"), "gave NaN"),
    ],
)
def test_a_model_that_fails_to_load_leaves_the_old_one_serving(
    machine: Machine, live: LiveRetriever, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    first = machine.build("old")
    machine.prepare("small")
    live.start()
    wait_for(lambda: live.ready)
    tries = []

    def fail(name: str) -> None:
        tries.append(name)
        raise error

    machine.before = fail
    second = machine.build("small")
    wait_for(lambda: said in live.status()["reason"])
    assert live.search(SearchRequest("vacuum")).generation == first
    assert live.ready
    looks = threading.Event()
    monkeypatch.setattr(live._follower, "_look", lambda look=live._follower._look: looks.set() or look())
    assert looks.wait(30)
    assert tries == ["small"]  # not at every look
    monkeypatch.setattr(loaded_models, "RETRY_SECONDS", 0.0)
    machine.before = lambda name: None
    wait_for(lambda: generation(live) == second)


def test_a_model_that_does_not_fit_is_told(
    machine: Machine, live: LiveRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [(100 << 20, "the cgroup")]
    monkeypatch.setattr(known_models, "bytes_of", lambda plan: 90_000_000)
    monkeypatch.setattr(memory_room, "room", lambda: free[0])
    first = machine.build("old")
    machine.prepare("small")
    live.start()
    wait_for(lambda: live.ready)
    second = machine.build("small")
    wait_for(lambda: "model small needs 157 MB of memory beside old (auto)," in live.status()["reason"])
    assert "the cgroup leaves 105 MB: allow more" in live.status()["reason"]
    assert live.search(SearchRequest("vacuum")).generation == first
    assert machine.loaded == ["old"]
    free[0] = (1 << 30, "the cgroup")
    monkeypatch.setattr(loaded_models, "RETRY_SECONDS", 0.0)
    wait_for(lambda: generation(live) == second)


def test_a_setting_limits_the_memory_of_models(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_models, "bytes_of", lambda plan: 90_000_000)
    machine.build("old")
    machine.prepare("old")
    machine.prepare("small")
    live = machine.serve(model_memory="80")
    live.start()
    wait_for(lambda: live.ready)  # whatever it takes, without one there is nothing
    machine.build("small")
    wait_for(lambda: "model_memory allows 80 MB" in live.status()["reason"])
    live.close()


def test_what_is_left_of_memory_is_known() -> None:
    free, limit = memory_room.room()
    assert 0 <= free < 1 << 50
    assert limit


def test_records_of_others_are_not_believed(machine: Machine) -> None:
    machine.prepare("small")
    [path] = (machine.settings.cache / known_models.FOLDER).iterdir()
    manifest: Any = SimpleNamespace(fingerprint=embedder_of("small").fingerprint, settings={})
    assert known_models.find(machine.settings, manifest)
    path.chmod(0o666)
    assert known_models.find(machine.settings, manifest) is None
    path.chmod(0o600)
    path.write_text(path.read_text().replace('"small"', '"other"', 1))
    path.rename(path.with_name("0" * 32 + ".json"))
    assert list(known_models.known_models(machine.settings)) == []


def test_a_manifest_names_no_place(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that comes from elsewhere may only name the packaged model, and places of the settings."""
    asked: list[str] = []

    def plan(config: Any) -> Any:
        asked.append(config.model)
        raise ModelError("not here")

    monkeypatch.setattr(known_models, "Plan", plan)
    values = load({}, {}).model_values()
    for model in ("/etc", "owner/model", "old", "all-MiniLM-L6-v2"):
        manifest: Any = SimpleNamespace(
            fingerprint={"precision": "int8"}, settings={"model": values | {"model": model}}
        )
        assert known_models.find(machine.settings, manifest) is None
    assert asked == ["old", "all-MiniLM-L6-v2"]
    hint = known_models.how_to_prepare(manifest)
    assert hint == "pilotlight warm --model all-MiniLM-L6-v2 --precision int8"


def test_two_processes_load_one_after_the_other(machine: Machine) -> None:
    machine.prepare("old")
    order: list[str] = []

    def load_it(name: str) -> None:
        with loaded_models._one_at_a_time(machine.settings):
            order.append(f"{name} in")
            order.append(f"{name} out")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(load_it, ["a", "b"]))
    assert [entry.split()[1] for entry in order] == ["in", "out", "in", "out"]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_the_model_of_the_settings_in_another_precision_is_another(machine: Machine, precision: str) -> None:
    """What `auto` stands for here is the model of the settings; the two others are to be loaded beside it."""
    values = machine.settings.model_values() | {"precision": precision, "engine": "native", "threads": 0}
    known = known_models.KnownModel(values, {}, 0)
    assert machine.settings.precision == "auto"
    assert (known.settings(machine.settings) is machine.settings) is (precision == resolve_precision("auto"))
    assert known.settings(machine.settings).precision in (precision, "auto")
