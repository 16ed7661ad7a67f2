"""The encoder's arithmetic against transformers' own, for every architecture it loads."""

import numpy as np
import pytest
import torch

from embedder.model.checkpoint import relative_position_bias
from embedder.model.encoder import Encoder, ModernEncoder, TransformersEncoder, load_module
from embedder.model.spec import read_spec, shape_of
from tests.embedder.engines.kernels import KINDS, ODD_MODERN

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("kind", [*KINDS, "silu"])
def test_matches_transformers(make_model, kind):
    from transformers import AutoModel

    folder = make_model("modernbert", **ODD_MODERN) if kind == "silu" else make_model(kind)
    ours = load_module(read_spec(folder)).encoder
    assert isinstance(ours, ModernEncoder if kind in {"modernbert", "silu"} else Encoder)
    reference = AutoModel.from_pretrained(folder).eval()
    ids = torch.randint(5, 64, (4, 40), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([40, 1, 17, 2])
    mask = (torch.arange(40)[None, :] < lengths[:, None]).long()
    ids[mask == 0] = reference.config.pad_token_id
    with torch.inference_mode():
        expected = reference(input_ids=ids, attention_mask=mask).last_hidden_state
        difference = ((ours(ids, mask) - expected).abs() * mask[..., None]).max()
    assert difference < 1e-5


def test_configs_of_transformers_4_and_5_mean_the_same(make_model):
    config = dict(read_spec(make_model("modernbert")).config)
    shape = shape_of(config)
    angles = config.pop("rope_parameters")
    kinds = config.pop("layer_types")
    old = config | {
        "global_attn_every_n_layers": 3,
        "global_rope_theta": angles["full_attention"]["rope_theta"],
        "local_rope_theta": angles["sliding_attention"]["rope_theta"],
    }
    assert shape_of(old) == shape
    assert (shape.global_every, shape.window, shape.global_theta, shape.local_theta) == (3, 8, 160_000, 10_000)
    assert shape_of(config | {"layer_types": kinds[::-1]}).global_every == 3  # full, sliding, sliding, full
    for change in (
        {"layer_types": kinds[1:] + kinds[:1]},
        {"hidden_activation": "relu"},
        {"norm_bias": True},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    ):
        assert shape_of(config | change) is None  # goes through transformers


def test_an_architecture_outside_the_family_goes_through_transformers(make_model):
    module = load_module(read_spec(make_model("electra")))
    assert isinstance(module.encoder, TransformersEncoder)
    ids = torch.tensor([[3, 9, 4]])
    with torch.inference_mode():
        assert module(ids, torch.ones_like(ids)).norm().item() == pytest.approx(1.0, abs=1e-5)


def test_position_bias_table_is_that_of_the_reference():
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    length = 200
    relative = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    buckets = MPNetEncoder.relative_position_bucket(relative)
    table = torch.randn(32, 3, generator=torch.Generator().manual_seed(2))
    assert np.array_equal(relative_position_bias(table.numpy(), length), table[buckets].permute(2, 0, 1).numpy())
