"""The torch engines: three ways to run the same module, with the same vectors."""

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

TOKEN_BUDGET = 4096  # padded tokens of a batch; larger batches are not faster
MAX_BATCH_TEXTS = 256
_INDUCTOR_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
Run = Callable[[Tensor, Tensor], Sequence[Tensor]]
# torch would keep precompiled headers in a shared /tmp; see `_keep_private`
_COMPILE_OPTIONS: dict[str, Any] = {"freezing": True, "cpp_cache_precompile_headers": False}


class TorchEngine:
    """An engine that batches and pads token rows.

    `run` maps ids and mask, int64 (b, s), to vectors, float32 (b, d), and states, float32 (b, s, hidden).
    """

    def __init__(self, spec: ModelSpec, run: Run) -> None:
        self._run = run
        self._turn = threading.Lock()
        self._dimension = spec.dimension
        self._pad = int(spec.config.get("pad_token_id") or 0)
        self._tokens = int(spec.config.get("vocab_size") or 0) * spec.token_types

    maxsim = staticmethod(maxsim)

    def encode(self, rows: Sequence[TokenIds], *, tokens: bool = False) -> tuple[Floats, list[Floats]]:
        """Map token ids, a list for each text, to vectors, float32 (n, dim).

        With `tokens` also returns the states of the last layer, float32 (tokens, hidden) for each text.
        """
        vectors = np.empty((len(rows), self._dimension), dtype=np.float32)
        states_by_text: list[Floats] = [vectors[:0]] * len(rows)
        for batch in group_by_length([len(row) for row in rows]):
            ids, mask = pad([rows[i] for i in batch], self._pad)
            if self._tokens and ids.max() >= self._tokens:
                raise ModelError("the tokenizer has tokens that the model has no weights for: fetch the model again")
            with self._turn, torch.inference_mode():
                batch_vectors, states = self._run(torch.from_numpy(ids), torch.from_numpy(mask))
            vectors[batch] = batch_vectors.numpy()
            for i, state in zip(batch, states.numpy(), strict=True) if tokens else ():
                states_by_text[i] = state[: len(rows[i])].copy()
        return vectors, states_by_text


def compile_module(module: nn.Module, cache: Path) -> Run:
    """Compile a module with `torch.compile`: frozen, prepacked weights, dynamic batch and sequence."""
    require_compiler("the engine compile")
    compiled = torch.compile(module, dynamic=True, options=_COMPILE_OPTIONS)
    try:
        _keep_private(cache / "inductor")
        # The keys of torch's cache lack the instruction set. In a home folder shared by machines, or with
        # PILOTLIGHT_ISA, torch would run loops for vectors of another width, which write beyond their memory.
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        config: Any = torch.compiler.config
        tag = f"{config.cache_key_tag} {pick_vec_isa()}"
        # torch compiles a dimension of size one separately
        with config.patch(cache_key_tag=tag), torch.inference_mode():
            for shape in ((1, 8), (2, 8), (3, 5)):
                ids = torch.zeros(shape, dtype=torch.int64)
                compiled(ids, torch.ones_like(ids))
    except (OSError, RuntimeError) as error:
        raise build_error(error, "the model") from error
    return compiled


def _keep_private(folder: Path) -> None:
    """Keep compiled code in a private folder instead of a shared /tmp.

    Torch reads the folder from the environment when it compiles, and sets its default there when it loads a model. So
    a value other than the default is the user's, and stays.
    """
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    default = default_cache_dir()
    if os.environ.get(_INDUCTOR_FOLDER, default) == default:
        os.environ[_INDUCTOR_FOLDER] = str(folder)


def load_package(folder: Path) -> Run:
    """Load an AOTInductor package. The loader is constructed directly, because torch's function may run a compiler."""
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
    """Group texts of similar length to reduce padding, and return the indices of each group.

    `lengths` and `budget` are in tokens. The padded size of a group (texts × longest) is within `budget`, unless it has
    only one text. Long texts come first, so memory use peaks early, and the remaining time is not underestimated.
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
    """Return ids and mask, int64 (rows, longest row), padded on the right. The mask is 1 for tokens.

    The length is at least 2, because a package with dynamic sequence length cannot take 1.
    """
    longest = max(2, *map(len, rows))
    ids = np.full((len(rows), longest), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask
