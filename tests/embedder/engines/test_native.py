"""The native engine on small random models of every architecture, with the kernels of every instruction set that this
processor has: against the module it packs, at every edge."""

import json
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from embedder import cpu
from embedder.engines import library
from embedder.engines import native as kernel
from embedder.engines.build_worker import write_weights
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
    assert np.array_equal(alone_engine.twin().encode(rows), alone)
    for threads in (1, 2, 3, 8, 64):  # more than processors, too
        assert np.array_equal(start(model, precision, threads, isa).encode(rows), alone)


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
        assert start(model, threads=3).encode(make_rows([5])).shape == (1, 64)
    assert threading.active_count() == before


@needs_kernels
def test_a_text_longer_than_the_positions_is_told(make_model, start):
    for kind, longest in (("bert", 66), ("mpnet", 64)):
        engine = start(make_model(kind))
        assert engine.encode([[5] * longest])[0].shape == (1, 64)
        with pytest.raises(ModelError, match=f"a text of {longest + 1} tokens is longer than the {longest} that"):
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
