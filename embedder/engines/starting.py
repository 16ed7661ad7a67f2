"""Starts the engine of a plan. torch is imported only where the engine needs it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedder.cache import open_private
from embedder.engines.native import NativeEngine
from embedder.engines.package import ensure_package
from embedder.engines.plan import Plan

if TYPE_CHECKING:
    from embedder.engines.pytorch import Engine
    from embedder.model.sentence import SentenceEncoder


def start_engine(plan: Plan, module: "Callable[[], SentenceEncoder] | None" = None) -> "Engine":
    """Return the engine that runs a plan, building its package first if there is none.

    `module` gives the model's module to engines that run one; without it, it is loaded here. Raises as `ensure_package`
    does, and ModelError.
    """
    key = plan.package_key
    if plan.engine == "native" and key:
        return NativeEngine(ensure_package(plan, key), plan.spec, plan.precision, plan.threads, plan.isa)
    import torch

    from embedder.engines import pytorch as engines
    from embedder.model.sentence import WithStates, load_in

    torch.set_num_threads(plan.threads)
    sizes = (plan.spec.dimension, int(plan.spec.config.get("pad_token_id") or 0))
    load = module or (lambda: load_in(plan.spec, plan.precision))
    if plan.engine == "eager":
        return engines.EagerEngine(WithStates(load()), *sizes)
    if plan.engine == "compile" or not key:
        return engines.CompiledEngine(WithStates(load()), *sizes, open_private(plan.config.cache_dir))
    return engines.PackagedEngine(ensure_package(plan, key), *sizes)
