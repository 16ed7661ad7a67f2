"""The models that the settings name, compiled first where they have to be."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from embedder.config import PRECISIONS
from embedder.engines.package import ensure_package, is_built, needs_compiler
from embedder.engines.plan import Plan
from indexer.errors import IndexerError
from indexer.generation.layout import DEFAULT, GENERATIONS
from indexer.generation.manifest import Manifest, read_manifest
from indexer.publish.collections import list_collections, live_id
from rag.clock import StepTimer
from rag.lazy_embedder import LazyEmbedder
from rag.query.served_model import check_fingerprint
from rag.settings import Settings


def lazy_embedder(settings: Settings, *, quiet: bool = False) -> LazyEmbedder:
    """Return the embedder of the settings, to be compiled and loaded only if it is needed."""
    from rag.serving.live import load_embedder

    plan = Plan(settings.embedder_config())

    def load() -> Any:
        prepare(plan, quiet=quiet)
        if plan.engine != "compile":
            return load_embedder(settings)
        title = f"compiling {plan.spec.name} (compile, {plan.precision}), as every start does"
        with StepTimer(sys.stderr, title, quiet=quiet) as elapsed:
            elapsed.step("torch.compile")
            loaded = load_embedder(settings)
        if not quiet:
            print(f"compiled {plan.spec.name} in {elapsed.seconds:.0f} s", file=sys.stderr)
        return loaded

    return LazyEmbedder(plan, load)


def plans(settings: Settings) -> list[Plan]:
    """Return the plan of the embedder, and that of the cross-encoder where one is set. Raises EmbedderError."""
    configs = [settings.embedder_config(), settings.reranker_config()]
    return [Plan(config) for config in configs if config]


@contextmanager
def verifying(known: Sequence[Plan]) -> Iterator[None]:
    """Verify the models' files and the packages that are built, on another core while the block imports what it needs.

    Neither this process nor what it forks has to hash them again. Raises ModelError, or PackageError where a package
    is damaged.
    """
    with ThreadPoolExecutor(1) as other_core:
        verified = other_core.submit(_verify, known)
        yield
        verified.result()


def _verify(known: Sequence[Plan]) -> None:
    for plan in known:
        _ = plan.fingerprint
        if (key := plan.package_key) and is_built(plan):
            ensure_package(plan, key)


def as_built(settings: Settings) -> Settings:
    """Return the settings; where their precision is auto, with that of the index, which `auto` may not be here."""
    if settings.precision != "auto" or (manifest := _live_manifest(settings)) is None:
        return settings
    precision = manifest.fingerprint.get("precision")
    return dataclasses.replace(settings, precision=precision) if precision in PRECISIONS else settings


def check_model(settings: Settings, fingerprint: dict[str, Any]) -> None:
    """Raise FingerprintMismatch if the index was built with another model: all its collections share one."""
    if manifest := _live_manifest(settings):
        check_fingerprint(manifest, fingerprint)


def _live_manifest(settings: Settings) -> Manifest | None:
    """Return the manifest of the live generation of the collection, or else of another collection of the index."""
    folders = list_collections(settings.index_dir)
    for name in (settings.collection, DEFAULT, *folders):
        try:
            if name in folders and (live := live_id(folders[name])):
                return read_manifest(folders[name] / GENERATIONS / live)
        except IndexerError:  # which whoever opens it reports
            continue
    return None


def prepare(plan: Plan, *, quiet: bool = False) -> None:
    """Build the packages of the plan that are missing, saying so on stderr."""
    build(plan, quiet=quiet)


def build(plan: Plan, *, quiet: bool = False) -> bool:
    """Build the package of one model where there is none, saying so on stderr. Return whether it was built."""
    key = plan.package_key
    if key is None or is_built(plan):
        return False
    verb = "compiling" if needs_compiler(key) else "packing"
    title = f"{verb} {plan.spec.name} ({plan.engine}, {plan.precision}) once for this machine"
    with StepTimer(sys.stderr, title, quiet=quiet) as elapsed:
        ensure_package(plan, key, elapsed.step)
    return True
