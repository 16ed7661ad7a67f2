"""The encoder's arithmetic against transformers' own, for every architecture it loads."""

import pytest
import torch

from embedder.model.encoder import Encoder, relative_position_bias
from embedder.model.sentence import TransformersEncoder, load_module
from embedder.model.spec import read_spec

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert"])
def test_matches_transformers(make_model, kind):
    from transformers import AutoModel

    folder = make_model(kind)
    ours = load_module(read_spec(folder)).encoder
    assert isinstance(ours, Encoder)
    reference = AutoModel.from_pretrained(folder).eval()
    ids = torch.randint(5, 64, (4, 40), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([40, 1, 17, 2])
    mask = (torch.arange(40)[None, :] < lengths[:, None]).long()
    ids[mask == 0] = reference.config.pad_token_id
    with torch.inference_mode():
        expected = reference(input_ids=ids, attention_mask=mask).last_hidden_state
        difference = ((ours(ids, mask) - expected).abs() * mask[..., None]).max()
    assert difference < 1e-5


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
    assert torch.equal(relative_position_bias(table, length), table[buckets].permute(2, 0, 1))
