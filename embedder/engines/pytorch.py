"""Run models with PyTorch: eagerly, with `torch.compile`, or from a package that AOTInductor compiled."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from embedder.engines.library import require_compiler
from embedder.engines.package import build_error
from embedder.engines.plan import AOT_FILE
from embedder.errors import ModelError, PackageError
from embedder.late_interaction import Floats, maxsim
from embedder.model.spec import ModelSpec
from embedder.model.tokenizer import TokenIds

TOKEN_BUDGET = 4096  # tokens in a batch, including padding; larger batches are not faster
MAX_BATCH_TEXTS = 256
_INDUCTOR_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
Run = Callable[[Tensor, Tensor], Sequence[Tensor]]
# Precompiled headers are off, because torch would write them to /tmp, which other users share.
_COMPILE_OPTIONS: dict[str, Any] = {"freezing": True, "cpp_cache_precompile_headers": False}


class TorchEngine:
    """An engine that runs a PyTorch model on padded batches of token ids.

    `run` maps ids and mask, int64 (b, s), to vectors, float32 (b, d), and last hidden states, float32 (b, s, hidden).
    """

    def __init__(self, spec: ModelSpec, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._dimension = spec.dimension
        self._pad = int(spec.config.get("pad_token_id") or 0)
        self._tokens = int(spec.config.get("vocab_size") or 0) * spec.token_types

    maxsim = staticmethod(maxsim)

    def encode(self, rows: Sequence[TokenIds], *, tokens: bool = False) -> tuple[Floats, list[Floats]]:
        """Return the vectors of texts, float32 (n, dim), from the token ids of each text.

        If `tokens` is true, also return the last hidden states of each text, float32 (tokens, hidden).
        """
        vectors = np.empty((len(rows), self._dimension), dtype=np.float32)
        states_by_text: list[Floats] = [vectors[:0]] * len(rows)
        for batch in group_by_length([len(row) for row in rows]):
            ids, mask = pad([rows[i] for i in batch], self._pad)
            if self._tokens and ids.max() >= self._tokens:
                raise ModelError("the tokenizer has tokens that the model has no weights for: fetch the model again")
            with self._lock, torch.inference_mode():
                batch_vectors, states = self._run(torch.from_numpy(ids), torch.from_numpy(mask))
            vectors[batch] = batch_vectors.numpy()
            for i, state in zip(batch, states.numpy(), strict=True) if tokens else ():
                states_by_text[i] = state[: len(rows[i])].copy()
        return vectors, states_by_text


def compile_module(module: nn.Module, cache: Path) -> Run:
    """Compile a module with `torch.compile` for all batch sizes and sequence lengths. The weights are frozen."""
    require_compiler("the engine compile")
    compiled = torch.compile(module, dynamic=True, options=_COMPILE_OPTIONS)
    try:
        _set_private_folder(cache / "inductor")
        # The keys of torch's cache do not include the instruction set. If machines share the cache or PILOTLIGHT_ISA
        # is set, torch could load code for vectors of another width, which writes out of bounds.
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        config: Any = torch.compiler.config
        tag = f"{config.cache_key_tag} {pick_vec_isa()}"
        # torch compiles separate code for a batch of one text, so the example inputs have one, two and three texts.
        with config.patch(cache_key_tag=tag), torch.inference_mode():
            for shape in ((1, 8), (2, 8), (3, 5)):
                ids = torch.zeros(shape, dtype=torch.int64)
                compiled(ids, torch.ones_like(ids))
    except (OSError, RuntimeError) as error:
        raise build_error(error, "the model") from error
    return compiled


def _set_private_folder(folder: Path) -> None:
    """Set torch's folder for compiled code to a private one. Torch's default is in /tmp, which other users share.

    Torch reads the folder from an environment variable when it compiles, and sets the variable to the default when it
    loads a model. Any other value was set by the user, so it is not changed.
    """
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    default = default_cache_dir()
    if os.environ.get(_INDUCTOR_FOLDER, default) == default:
        os.environ[_INDUCTOR_FOLDER] = str(folder)


def load_package(folder: Path) -> Run:
    """Load an AOTInductor package. torch's public function is not used, because it may run a compiler."""
    try:
        loader = torch._C._aoti.AOTIModelPackageLoader(str(folder / AOT_FILE), "model", False, 1, -1)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0][:200]
        raise PackageError(
            f"the package {folder} cannot be loaded ({reason}): torch unpacks it in TMPDIR, which must be "
            "writable, have space and allow execution; otherwise remove it to build it again"
        ) from error
    return lambda ids, mask: loader.boxed_run([ids, mask])


def group_by_length(lengths: Sequence[int], budget: int = TOKEN_BUDGET) -> list[list[int]]:
    """Group texts of similar length to reduce padding. Returns the indices of the texts in each group.

    `lengths` and `budget` are in tokens. A group of several texts has at most `budget` tokens, including padding. The
    first groups have the longest texts, so that memory use peaks early and estimates of the remaining time are not too
    low.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches: list[list[int]] = []
    for i in order:
        if batches:
            last = batches[-1]
            if len(last) < MAX_BATCH_TEXTS and (len(last) + 1) * lengths[last[0]] <= budget:
                last.append(i)
                continue
        batches.append([i])
    return batches


def pad(rows: Sequence[TokenIds], padding: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pad rows of token ids on the right. Returns ids and mask, int64 (rows, longest row). The mask is 1 for tokens.

    Rows are padded to at least 2 tokens, because packages for dynamic sequence lengths do not accept 1.
    """
    longest = max(2, *map(len, rows))
    ids = np.full((len(rows), longest), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask
