"""int8 without calibration: the layer alone, models that are compiled with it, and where it is refused."""

import dataclasses
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from embedder import EmbedderConfig, Embeddings, cpu
from embedder.engines.package import package_folder
from embedder.engines.plan import INT8_ISAS, Plan
from embedder.engines.pytorch import PACKAGE
from embedder.errors import PrecisionError
from embedder.model.quantisation import QuantisedLinear, quantise

needs_int8 = pytest.mark.skipif(
    cpu.detect().isa not in INT8_ISAS, reason=f"int8 needs AVX512_VNNI or AMX, this CPU has {cpu.detect().isa}"
)


@pytest.fixture
def linear():
    torch.manual_seed(1)
    return nn.Linear(96, 40).requires_grad_(False)


def test_close_to_the_layer_it_replaces(linear):
    x = torch.randn(3, 7, 96) * torch.logspace(-3, 3, 7)[:, None]  # tokens of very different size
    expected = linear(x) - linear.bias
    got = QuantisedLinear(linear)(x) - linear.bias
    error = (got - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < 0.02


def test_a_token_does_not_depend_on_the_others(linear):
    layer = QuantisedLinear(linear)
    x = torch.randn(1, 9, 96)
    with_outlier = x.clone()
    with_outlier[0, -1] *= 1e6
    assert torch.equal(layer(x)[0, :-1], layer(with_outlier)[0, :-1])


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-30])
def test_equal_values_are_exact(linear, value):
    layer = QuantisedLinear(linear)
    x = torch.full((1, 96), value)
    assert torch.allclose(layer(x), value * layer.sums + linear.bias)


def test_a_column_of_zeros_and_no_bias():
    linear = nn.Linear(32, 4, bias=False).requires_grad_(False)
    linear.weight[1] = 0
    y = QuantisedLinear(linear)(torch.randn(5, 32))
    assert torch.isfinite(y).all()
    assert not y[:, 1].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_are_not_hidden(linear, bad):
    x = torch.randn(2, 96)
    x[1, 5] = bad
    y = QuantisedLinear(linear)(x)
    assert torch.isfinite(y[0]).all()
    assert not torch.isfinite(y[1]).any()


def test_every_linear_layer_is_replaced():
    module = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.LayerNorm(8))
    quantise(module)
    assert sum(isinstance(m, QuantisedLinear) for m in module.modules()) == 2
    assert not any(isinstance(m, nn.Linear) for m in module.modules())


@pytest.mark.parametrize("engine", ["eager", "compile"])
def test_engines_without_int8_are_refused_by_name(engine):
    with pytest.raises(PrecisionError, match=f"engine {engine} has no int8: choose the engine native or aot"):
        Plan(EmbedderConfig(engine=engine, precision="int8"))


def test_processors_without_int8_are_refused_by_name(monkeypatch):
    old = dataclasses.replace(cpu.detect(), isa="avx2")
    monkeypatch.setattr(cpu, "detect", lambda: old)
    with pytest.raises(PrecisionError, match="AVX512_VNNI or AMX, and avx2 is used here: choose the engine native"):
        Plan(EmbedderConfig(engine="aot", precision="int8"))
    assert Plan(EmbedderConfig(precision="int8")).engine == "native"


@needs_int8
@pytest.mark.model
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's export, about itself
@pytest.mark.parametrize("kind", ["mpnet", "electra"])  # of the encoder family, and through transformers
def test_every_product_of_a_compiled_model_is_int8(make_model, tmp_path, kind):
    model = str(make_model(kind))
    reference = Embeddings(EmbedderConfig(model=model, engine="eager", precision="fp32"))
    config = EmbedderConfig(model=model, engine="aot", precision="int8", cache_dir=tmp_path / "cache")

    embeddings = Embeddings(config)
    texts = ["a", "the index of a table", "create unique key drop vacuum " * 12, "query"]
    assert (embeddings.encode(texts) * reference.encode(texts)).sum(1).min() > 0.985
    alone = np.concatenate([embeddings.encode([text]) for text in texts])
    assert np.abs(alone - embeddings.encode(texts)).max() < 3e-2
    with zipfile.ZipFile(package_folder(config.cache_dir, embeddings.plan.package_key) / PACKAGE) as package:
        wrapper = next(package.read(name).decode() for name in package.namelist() if name.endswith("wrapper.cpp"))
    products = sum(isinstance(module, nn.Linear) for module in reference.model.modules())
    assert wrapper.count("qlinear_pointwise_tensor(") == products
