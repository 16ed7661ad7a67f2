"""The models that the settings name, compiled first where they have to be."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from embedder.engines.package import ensure_package, is_built, needs_compiler
from embedder.engines.plan import Plan
from indexer.generation.manifest import Manifest
from rag.clock import StepTimer
from rag.lazy_embedder import LazyEmbedder
from rag.models.known_models import find, remember
from rag.settings import Settings


def lazy_embedder(settings: Settings, *, quiet: bool = False) -> LazyEmbedder:
    """Return the embedder of the settings, to be compiled and loaded only if it is needed."""
    from rag.serving.live import load_embedder

    plan = Plan(settings.embedder_config())

    def load() -> Any:
        prepare_embedder(settings, plan, quiet=quiet)
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
        for part in plan.parts:
            key = part.package_key
            if key and is_built(part):
                ensure_package(part, key)


def made_for(settings: Settings, manifest: Manifest) -> Settings:
    """Return the settings with the model that made a generation, if it is known here; else as they are."""
    known = find(settings, manifest)
    return known.settings(settings) if known else settings


def prepare_embedder(settings: Settings, plan: Plan, *, quiet: bool = False) -> None:
    """Build what its plan lacks, and remember it as a model that this machine is ready for."""
    prepare(plan, quiet=quiet)
    remember(settings, plan)


def prepare(plan: Plan, *, quiet: bool = False) -> None:
    """Build the packages of the plan that are missing, saying so on stderr."""
    for part in plan.parts:
        build(part, quiet=quiet)


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
