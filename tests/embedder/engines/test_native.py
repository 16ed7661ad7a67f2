"""The native engine on small random models of every architecture, with the kernels of every instruction set that this
processor has: against the module it packs, at every edge; and the engines of torch."""

import json
import random
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from embedder import cpu
from embedder.engines import library
from embedder.engines import native as kernel
from embedder.engines.build_worker import write_weights
from embedder.engines.library import find_compiler
from embedder.engines.pytorch import TorchEngine, compile_module, group_by_length
from embedder.errors import ModelError
from embedder.model.encoder import load_module
from embedder.model.spec import read_spec
from tests.embedder.engines.kernels import (
    KINDS,
    LONGEST,
    MODULES,
    ODD_MODERN,
    ODD_SIZES,
    PRECISIONS,
    cosines,
    make_rows,
    reference,
    runs,
    with_modules,
)

MACHINE = library.architecture()
ISAS = [isa for isa in cpu.detect().isas if isa in library.ISAS.get(MACHINE, {})]
BOTH = [(isa, precision) for isa in ISAS for precision in PRECISIONS if runs(isa, precision)]
MODELS = {kind: (kind, {}, range(1, LONGEST + 1)) for kind in KINDS}
MODELS |= {name: ("bert", sizes, [1, 2, 13, 14, 15, 33, 64]) for name, sizes in ODD_SIZES.items()}
MODELS["odd modernbert"] = ("modernbert", ODD_MODERN, [1, 2, 9, 17, 33, 64])
needs_kernels = pytest.mark.skipif(not ISAS, reason=f"there are no native kernels for {', '.join(cpu.detect().isas)}")


@pytest.fixture
def start(compiled, tmp_path):
    """Return a function that packs a model folder and starts the engine on it."""

    def start(model, precision="bf16", threads=2, isa=ISAS[0]):
        folder = tmp_path / f"{model.name}-{precision}"
        spec = read_spec(model)
        if not folder.exists():
            folder.mkdir()
            write_weights(spec, precision, MACHINE, folder)
        return kernel.NativeEngine(folder, compiled, spec, precision, threads, isa)

    return start


@pytest.mark.parametrize(("isa", "precision"), BOTH)
@pytest.mark.parametrize("name", MODELS)
def test_every_architecture_and_odd_sizes(make_model, start, name, precision, isa):
    kind, sizes, lengths = MODELS[name]
    model, rows = make_model(kind, **sizes), make_rows(lengths)
    assert (
        cosines(start(model, precision, isa=isa).encode(rows)[0], reference(model, rows)).min() > PRECISIONS[precision]
    )


@needs_kernels
def test_instruction_sets_share_no_code(compiled, tmp_path):
    """A function that the linker may take from any file would be taken from one for a richer processor."""
    source = f'#include "{library.SOURCES}/isa_{ISAS[0]}.cpp"\n'
    (tmp_path / "one.cpp").write_text(source)
    flags = library.ISAS[MACHINE][ISAS[0]].split()
    line = ["g++", "-O2", "-std=c++17", "-fPIC", *flags, "-c", str(tmp_path / "one.cpp"), "-o", str(tmp_path / "one.o")]
    subprocess.run(line, check=True)
    listed = subprocess.run(["nm", "-C", str(tmp_path / "one.o")], check=True, capture_output=True, text=True).stdout
    shared = [
        name
        for _, kind, name in (text.rsplit(maxsplit=2) for text in listed.splitlines() if " W " in text or " V " in text)
    ]
    assert [name for name in shared if "gxx_personality" not in name] == []


@pytest.mark.parametrize(("isa", "precision"), BOTH)
@pytest.mark.parametrize("name", MODULES)
def test_what_follows_the_encoder(make_model, start, tmp_path, name, precision, isa):
    model = with_modules(make_model("bert"), name, tmp_path)
    rows = make_rows([1, 2, 30, 7, 64])
    engine, expected = start(model, precision, isa=isa), reference(model, rows)
    vectors = engine.encode(rows)[0]
    assert cosines(vectors, expected).min() > PRECISIONS[precision]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.linalg.norm(expected, axis=1), rel=0.1)
    assert np.array_equal(np.concatenate([engine.encode([row])[0] for row in rows]), vectors)
    assert engine.encode([[], *rows])[0].shape == (6, expected.shape[1])


@pytest.mark.parametrize(("isa", "precision"), BOTH)
@pytest.mark.parametrize("kind", ["mpnet", "modernbert"])
def test_a_vector_does_not_depend_on_batch_or_threads(make_model, start, kind, precision, isa):
    model = make_model(kind)
    rows = make_rows(np.random.default_rng(1).integers(1, LONGEST + 1, 300))
    alone_engine = start(model, precision, 1, isa)
    alone = np.concatenate([alone_engine.encode([row])[0] for row in rows])
    assert np.array_equal(alone_engine.twin().encode(rows)[0], alone)
    for threads in (1, 2, 3, 8, 64):  # more than processors, too
        assert np.array_equal(start(model, precision, threads, isa).encode(rows)[0], alone)


@needs_kernels
def test_nothing_in_a_row_gives_zeros(make_model, start):
    model = make_model("bert")
    (row,) = make_rows([9])
    engine = start(model)
    assert not engine.encode([[]])[0].any()
    mixed = engine.encode([[], row, []])[0]
    assert not mixed[[0, 2]].any()
    assert np.array_equal(mixed[1], engine.encode([row])[0][0])


@needs_kernels
def test_calls_from_many_threads_get_their_own_vectors(make_model, start):
    engine = start(make_model("bert"))
    batches = [make_rows(range(1, 20), seed) for seed in range(16)]
    expected = [engine.encode(batch)[0] for batch in batches]
    together = threading.Barrier(16)

    def call(i):
        together.wait()
        return [engine.encode(batches[i])[0] for _ in range(20)]

    with ThreadPoolExecutor(16) as pool:
        for i, results in enumerate(pool.map(call, range(16))):
            assert all(np.array_equal(result, expected[i]) for result in results)


@needs_kernels
def test_engines_come_and_go(make_model, start):
    model = make_model("bert")
    before = threading.active_count()
    for _ in range(20):
        assert start(model, threads=3).encode(make_rows([5]))[0].shape == (1, 64)
    assert threading.active_count() == before


@needs_kernels
def test_a_text_longer_than_the_positions_is_told(make_model, start):
    for kind, longest in (("bert", 66), ("mpnet", 64)):
        engine = start(make_model(kind))
        assert engine.encode([[5] * longest])[0].shape == (1, 64)
        with pytest.raises(ModelError, match=rf"has {longest + 1} tokens, but .* has positions for only {longest}:"):
            engine.encode([[5], [5] * (longest + 1)])


@pytest.mark.parametrize(
    ("change", "precision", "isa", "runs"),
    [
        ({}, "bf16", "avx512_bf16", True),
        ({}, "int8", "amx", True),
        ({}, "bf16", "avx2", True),
        ({}, "fp32", "generic", False),
        ({}, "int8", "neon_mmla", True),
        ({}, "int8", "neon", False),
        ({"hidden_act": "gelu_new"}, "bf16", "avx512_bf16", False),
        ({"hidden_size": 72, "num_attention_heads": 1}, "bf16", "avx512_bf16", False),
        ({"num_attention_heads": 4}, "bf16", "avx512_bf16", False),
        ({"model_type": "electra"}, "bf16", "avx512_bf16", False),
    ],
)
def test_what_it_runs(make_model, tmp_path, monkeypatch, change, precision, isa, runs):
    monkeypatch.setattr(library.platform, "machine", lambda: "aarch64" if "neon" in isa else "x86_64")
    model = shutil.copytree(make_model("bert"), tmp_path / "model")
    config = model / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    assert (kernel.find_obstacle(read_spec(model), precision, isa) == "") is runs


@pytest.mark.parametrize(("isa", "precision"), BOTH)
def test_tokens_come_with_the_same_vectors(make_model, start, precision, isa):
    """One text is run by the whole team, many by a thread a group."""
    model = make_model("bert")
    module = load_module(read_spec(model))
    engine = start(model, precision, isa=isa)
    for rows in (make_rows([9]), make_rows([3, 64, 1, 17]), make_rows([20] * 70), [[], [5], []]):
        vectors, states = engine.encode(rows, tokens=True)
        assert np.array_equal(vectors, engine.encode(rows)[0])
        assert [state.shape for state in states] == [(len(row), 64) for row in rows]
        for row, state in zip(rows[:5], states, strict=False):
            if row:
                with torch.inference_mode():
                    expected = module.encoder(torch.tensor([row]), torch.ones(1, len(row)).long())[0].numpy()
                assert cosines(state, expected).min() > 1 - 2 * (1 - PRECISIONS[precision])


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
