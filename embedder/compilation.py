"""A sentence encoder to a package of native code, for either engine that has one."""

from pathlib import Path

import torch

from embedder import kernel
from embedder.encoder import Encoder
from embedder.engines import PACKAGE
from embedder.packing import write_weights
from embedder.sentence import SentenceEncoder

_OPTIONS = {"freezing": True}  # folds the weights in and prepacks them in oneDNN's blocked layouts
_LARGEST_BATCH = 4096


def build_native(module: SentenceEncoder, precision: str, folder: Path) -> None:
    """Compile the native encoder and pack the weights of an fp32 module of the BERT family."""
    if not isinstance(module.encoder, Encoder):
        raise TypeError("the native engine packs the weights of an embedder.encoder.Encoder")
    kernel.compile_library(folder)
    write_weights(module.encoder, precision == "int8", folder)


def build_aot(module: SentenceEncoder, max_length: int, threads: int, folder: Path) -> None:
    """Compile a module, in its final precision, with AOTInductor, for every batch and sequence length."""
    # An example of two texts and a dynamic range from one: export would otherwise fix a size of 1 for good.
    ids = torch.zeros(2, 8, dtype=torch.int64)
    sizes = {
        0: torch.export.Dim("batch", min=1, max=_LARGEST_BATCH),
        1: torch.export.Dim("sequence", min=2, max=max_length),
    }
    with torch.no_grad():  # freezing is refused where gradients are recorded
        program = torch.export.export(module, (ids, torch.ones_like(ids)), dynamic_shapes={"ids": sizes, "mask": sizes})
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(folder / PACKAGE), inductor_configs=_OPTIONS | {"cpp.threads": threads}
        )
