"""The native engine on small random models of every architecture: against the module it packs, at every edge."""

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from embedder import cpu, kernel
from embedder.errors import ModelError, PackageError
from embedder.model import read_spec
from embedder.packing import write_weights
from embedder.sentence import load_module
from tests.embedder.conftest import save_modules

pytestmark = pytest.mark.skipif(
    cpu.detect().isa not in kernel.ISAS, reason=f"the native engine needs AVX512_BF16, this CPU has {cpu.detect().isa}"
)
KINDS = ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert"]
LONGEST = 64


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    kernel.compile_library(folder)
    return folder / kernel.LIBRARY


@pytest.fixture
def start(library, tmp_path):
    """Return a function that packs a model folder and starts the engine on it."""

    def start(model, precision="bf16", threads=2):
        folder = tmp_path / f"{model.name}-{precision}-{threads}"
        if not folder.exists():
            folder.mkdir()
            shutil.copy(library, folder)
            write_weights(load_module(read_spec(model)).encoder, precision == "int8", folder)
        return kernel.NativeEngine(folder, read_spec(model), precision, threads)

    return start


def make_rows(lengths, seed=3):
    generator = np.random.default_rng(seed)
    return [[int(i) for i in generator.integers(5, 64, length)] for length in lengths]


def reference(model, rows):
    module = load_module(read_spec(model))
    with torch.inference_mode():
        return np.concatenate([module(torch.tensor([row]), torch.ones(1, len(row)).long()).numpy() for row in rows])


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("precision", "bound"), [("bf16", 0.9995), ("int8", 0.985)])
def test_every_architecture_at_every_length(make_model, start, kind, precision, bound):
    model = make_model(kind)
    rows = make_rows(range(1, LONGEST + 1))
    assert cosines(start(model, precision).encode(rows), reference(model, rows)).min() > bound


@pytest.mark.parametrize(("pooling", "normalize"), [("cls_token", True), ("max_tokens", False), ("mean", False)])
def test_pooling(make_model, start, tmp_path, pooling, normalize):
    model = shutil.copytree(make_model("bert"), tmp_path / pooling)
    save_modules(model, pooling, normalize)
    rows = make_rows([1, 2, 30])
    vectors, expected = start(model).encode(rows), reference(model, rows)
    assert np.abs(vectors - expected).max() < 0.03 * np.abs(expected).max()


@pytest.mark.parametrize("precision", kernel.PRECISIONS)
def test_a_vector_does_not_depend_on_batch_or_threads(make_model, start, precision):
    model = make_model("mpnet")
    rows = make_rows(np.random.default_rng(1).integers(1, LONGEST + 1, 300))
    alone = np.concatenate([start(model, precision, threads=1).encode([row]) for row in rows])
    for threads in (1, 2, 3):
        assert np.array_equal(start(model, precision, threads).encode(rows), alone)


def test_nothing_in_a_row_gives_zeros(make_model, start):
    model = make_model("bert")
    (row,) = make_rows([9])
    engine = start(model)
    assert not engine.encode([[]]).any()
    mixed = engine.encode([[], row, []])
    assert not mixed[[0, 2]].any()
    assert np.array_equal(mixed[1], engine.encode([row])[0])


def test_calls_from_many_threads_get_their_own_vectors(make_model, start):
    engine = start(make_model("bert"))
    batches = [make_rows(range(1, 20), seed) for seed in range(16)]
    expected = [engine.encode(batch) for batch in batches]
    together = threading.Barrier(16)

    def call(i):
        together.wait()
        return [engine.encode(batches[i]) for _ in range(20)]

    with ThreadPoolExecutor(16) as pool:
        for i, results in enumerate(pool.map(call, range(16))):
            assert all(np.array_equal(result, expected[i]) for result in results)


def test_a_token_without_weights_is_told(make_model, start):
    with pytest.raises(ModelError, match=r"tokenizer\.json has tokens"):
        start(make_model("bert")).encode([[5, 64]])


def test_engines_come_and_go(make_model, start):
    model = make_model("bert")
    before = threading.active_count()
    for _ in range(20):
        assert start(model, threads=3).encode(make_rows([5])).shape == (1, 64)
    assert threading.active_count() == before


@pytest.mark.parametrize("name", [kernel.LIBRARY, kernel.WEIGHTS, kernel.LAYOUT])
def test_a_missing_file_is_a_typed_error(make_model, library, tmp_path, name):
    spec = read_spec(make_model("bert"))
    shutil.copy(library, tmp_path)
    write_weights(load_module(spec).encoder, False, tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(PackageError, match="cannot be loaded"):
        kernel.NativeEngine(tmp_path, spec, "bf16", 1)


@pytest.mark.parametrize(
    ("change", "precision", "isa", "runs"),
    [
        ({}, "bf16", "avx512_bf16", True),
        ({}, "int8", "amx", True),
        ({}, "fp32", "avx512_bf16", False),
        ({}, "bf16", "avx2", False),
        ({"hidden_act": "gelu_new"}, "bf16", "avx512_bf16", False),
        ({"hidden_size": 72}, "bf16", "avx512_bf16", False),
        ({"num_attention_heads": 4}, "bf16", "avx512_bf16", False),
        ({"model_type": "electra"}, "bf16", "avx512_bf16", False),
    ],
)
def test_what_it_runs(make_model, tmp_path, change, precision, isa, runs):
    model = shutil.copytree(make_model("bert"), tmp_path / "model")
    config = model / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    assert kernel.supports(read_spec(model), precision, isa) is runs
