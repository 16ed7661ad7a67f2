"""AOTInductor: a sentence encoder to a package of native code. The one place that exports and compiles."""

from pathlib import Path

import torch

from embedder.sentence import SentenceEncoder

_OPTIONS = {"freezing": True}  # folds the weights in and prepacks them in oneDNN's blocked layouts
_LARGEST_BATCH = 4096


def compile_package(module: SentenceEncoder, max_length: int, threads: int, path: Path) -> None:
    """Compile a module, in its final precision, to a package that serves every batch and sequence length."""
    # An example of two texts and a dynamic range from one: export would otherwise fix a size of 1 for good.
    ids = torch.zeros(2, 8, dtype=torch.int64)
    sizes = {
        0: torch.export.Dim("batch", min=1, max=_LARGEST_BATCH),
        1: torch.export.Dim("sequence", min=2, max=max_length),
    }
    with torch.no_grad():  # freezing is refused where gradients are recorded
        program = torch.export.export(module, (ids, torch.ones_like(ids)), dynamic_shapes={"ids": sizes, "mask": sizes})
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(path), inductor_configs=_OPTIONS | {"cpp.threads": threads}
        )
