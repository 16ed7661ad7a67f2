"""The engine that compiles as it starts, with a model so small that this takes seconds."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from embedder.engines.library import find_compiler
from embedder.engines.pytorch import CompiledEngine

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler"),
    # torch's own export and compile paths warn about themselves
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


class Words(nn.Module):
    """The mean of the vectors of words."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.words = nn.Embedding(16, 64)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        words = self.words(ids) * mask.unsqueeze(2)
        return words.sum(1) / mask.sum(1, keepdim=True), words


def started(cache: Path) -> tuple[npt.NDArray[np.float32], int, int]:
    """The vectors of an engine, and how many of the graphs it compiled were kept from before, and how many not."""
    torch._dynamo.reset()
    counters.clear()
    engine = CompiledEngine(Words(), 64, 0, cache)
    vectors = engine.encode([[1, 2, 3], [4, 5], [6]])
    return vectors, counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"]


def test_what_is_kept_is_not_used_with_another_instruction_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loops go in steps of one set's vectors: those of another write past the end of what they fill."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    poor, kept, made = started(tmp_path)
    assert (kept, made > 0) == (0, True)
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    rich, kept, others = started(tmp_path)
    assert (kept, others) == (0, made)
    again, kept, others = started(tmp_path)
    assert (kept, others) == (made, 0)
    np.testing.assert_allclose(rich, poor, atol=1e-6)
    np.testing.assert_array_equal(again, rich)
