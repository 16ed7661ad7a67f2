"""The engines of torch: batches, and the engine that compiles as it starts, with a model that takes seconds."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from embedder.engines.library import find_compiler
from embedder.engines.pytorch import TorchEngine, compile_module, group_by_length


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
    spec = SimpleNamespace(dimension=64, config={"vocab_size": 16}, token_types=1)
    vectors = TorchEngine(spec, compile_module(Words(), cache)).encode([[1, 2, 3], [4, 5], [6]])[0]
    return vectors, counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"]


@pytest.mark.model
@pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler")
# torch's own export and compile paths warn about themselves
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
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


def test_batches_hold_every_text_once_within_the_budget_and_with_little_padding() -> None:
    generator = random.Random(4)
    lengths = [generator.randint(2, 256) for _ in range(2000)]
    batches = group_by_length(lengths, budget=4096)
    assert sorted(i for batch in batches for i in batch) == list(range(2000))
    padded = [len(batch) * max(lengths[i] for i in batch) for batch in batches]
    assert max(padded) <= 4096
    assert sum(padded) < 1.05 * sum(lengths)
    assert group_by_length([9000], budget=4096) == [[0]]
    assert group_by_length([]) == []
