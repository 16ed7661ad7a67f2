"""Three ways to run the same module. All give the same vectors; they differ in speed and in what they need."""

import os
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from embedder.errors import CompilerMissing, PackageError
from embedder.package import find_compiler


class Engine(Protocol):
    """Runs a sentence encoder. Called under `torch.inference_mode`, opened by the caller outside the module."""

    def run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to vectors, float32 (b, d)."""


class EagerEngine:
    """The module as it is."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to vectors, float32 (b, d)."""
        vectors: Tensor = self._module(ids, mask)
        return vectors


class CompiledEngine:
    """`torch.compile` with freezing and prepacked weights, dynamic in batch and sequence."""

    def __init__(self, module: nn.Module, cache: Path) -> None:
        if find_compiler() is None:
            raise CompilerMissing(
                "--engine compile needs a C++ compiler: apt-get install g++, or choose --engine eager"
            )
        # Compiled code is native code: kept in the private cache, not in a shared /tmp.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / "inductor"))
        self._module: Any = torch.compile(module, dynamic=True, options={"freezing": True})
        # A size of one is compiled apart from all others, so both are compiled now and nothing later.
        with torch.inference_mode():
            for shape in ((1, 8), (2, 8), (3, 5)):
                ids = torch.zeros(shape, dtype=torch.int64)
                self._module(ids, torch.ones_like(ids))

    def run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to vectors, float32 (b, d)."""
        vectors: Tensor = self._module(ids, mask)
        return vectors


class PackagedEngine:
    """An AOTInductor package. Constructed directly, the loader never looks for a compiler."""

    def __init__(self, path: Path) -> None:
        try:
            self._loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise PackageError(
                f"the package {path} cannot be loaded ({reason}): remove it to build it again"
            ) from error

    def run(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to vectors, float32 (b, d)."""
        vectors: Tensor = self._loader.boxed_run([ids, mask])[0]  # boxed: the plain call runs a pytree each time
        return vectors
