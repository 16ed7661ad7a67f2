"""The package of a plan: the one in the cache, or else built, with word of what is being done. Imports no torch."""

from collections.abc import Callable
from pathlib import Path

from embedder import package
from embedder.config import Plan
from embedder.package import PackageKey


def ensure_package(plan: Plan, key: PackageKey, report: Callable[[str], None] = lambda stage: None) -> Path:
    """Return the folder of a verified package of the plan, building it first if there is none.

    `report` is told each step of a build as it begins, from the calling thread.
    Raises ModelError, CompilerMissing, CacheError, or PackageError where a package is damaged or cannot be written.
    """

    def build(folder: Path) -> None:
        report("importing torch")
        from embedder.compilation import build_package

        build_package(plan, folder, report)

    return package.ensure(plan.config.cache_dir, key, build)


def is_built(plan: Plan) -> bool:
    """Whether the plan needs no build: its package is in the cache, or its engine has none."""
    key = plan.package_key
    return key is None or package.package_folder(plan.config.cache_dir, key).exists()
