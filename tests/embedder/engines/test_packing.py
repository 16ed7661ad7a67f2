"""What numpy makes of weights, against torch, whose rounding is that of the processors' own instructions."""

import numpy as np
import pytest
import torch

from embedder.engines.build_worker import _bf16, write_weights
from embedder.errors import ModelError
from embedder.model.spec import read_spec
from tests.embedder.engines.kernels import with_modules

INTERLEAVE = {"x86_64": {"fp32": 1, "bf16": 2, "int8": 4}, "aarch64": {"fp32": 1, "bf16": 4, "int8": 8}}


def linears(spec, precision, machine, folder):
    """The places of a two-layer BERT's first linear layer and of the table of words, and the file."""
    folder.mkdir()
    write_weights(spec, precision, machine, folder)
    places = [int(place) for place in (folder / "layout.json").read_text().strip("[]").split(",")]
    return places, (folder / "weights.bin").read_bytes()


@pytest.mark.parametrize("machine", INTERLEAVE)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_weights_are_rounded_as_torch_rounds_them(make_model, tmp_path, machine, precision):
    from safetensors.torch import load_file, save_file

    folder = make_model("bert")
    tensors = load_file(folder / "model.safetensors")
    # halves between two numbers of bf16, which go to the even one; what becomes or is infinite, or is hardly there
    bits = torch.tensor([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, -0x800000, 1, 0])
    tensors["embeddings.word_embeddings.weight"][0, :8] = bits.to(torch.int32).view(torch.float32)
    save_file(tensors, folder / "model.safetensors")
    places, data = linears(read_spec(folder), precision, machine, tmp_path / "packed")
    words = tensors["embeddings.word_embeddings.weight"]
    stored = words if precision == "fp32" else words.bfloat16()
    expected = stored.view(torch.int16 if precision != "fp32" else torch.int32).numpy().tobytes()
    assert data[places[0] : places[0] + len(expected)] == expected

    weight = torch.cat([tensors[f"encoder.layer.0.attention.self.{x}.weight"] for x in ("query", "key", "value")])
    scale = weight.abs().amax(1) / 127
    codes = (weight / scale[:, None]).round().clamp(-127, 127)
    kept = {"fp32": weight, "bf16": weight.bfloat16().view(torch.int16), "int8": codes.to(torch.int8)}[precision]
    together = INTERLEAVE[machine][precision]
    panels = kept.view(len(weight) // 32, 32, -1, together).permute(0, 2, 1, 3).contiguous().numpy().tobytes()
    first = places[9]  # after nine tensors of the whole model
    assert data[first : first + len(panels)] == panels
    if precision == "int8":
        for place, values in zip(places[11:13], (scale, scale * codes.sum(1)), strict=True):
            assert data[place : place + 4 * len(scale)] == values.numpy().tobytes()
    else:
        assert places[11:13] == [-1, -1]


def test_what_is_not_a_number_stays_so():
    nan = np.array([0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan((_bf16(nan).astype(np.uint32) << 16).view(np.float32)).all()


def test_a_model_in_bf16_is_packed_as_it_is(make_model, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = make_model("bert")
    narrow = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file({name: tensor.float() for name, tensor in narrow.items()}, folder / "model.safetensors")
    wide = linears(read_spec(folder), "bf16", "x86_64", tmp_path / "wide")
    save_file(narrow, folder / "model.safetensors")
    assert linears(read_spec(folder), "bf16", "x86_64", tmp_path / "narrow") == wide


def test_dense_modules_stay_in_fp32(make_model, tmp_path):
    from safetensors.torch import load_file

    folder = with_modules(make_model("bert"), "dense", tmp_path)
    places, data = linears(read_spec(folder), "int8", "x86_64", tmp_path / "packed")
    bias = load_file(folder / "3_Dense" / "model.safetensors")["linear.bias"].numpy().tobytes()
    assert data[places[-3] :] == bias
    assert places[-2:] == [-1, -1]


def test_what_is_no_model_of_the_engine_is_told(make_model, tmp_path):
    with pytest.raises(ModelError, match="the native engine does not run electra"):
        write_weights(read_spec(make_model("electra")), "fp32", "x86_64", tmp_path)
