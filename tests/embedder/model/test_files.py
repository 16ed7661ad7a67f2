"""A model's files, read without their libraries: safetensors against what the library writes, and digests."""

import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedder.errors import ModelError
from embedder.model.files import file_sha256, read_tensors

KINDS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@pytest.fixture
def file(tmp_path):
    values = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    tensors = {name: values.to(kind) for name, kind in KINDS.items()}
    save_file(tensors | {"ids": torch.arange(5)}, tmp_path / "model.safetensors", {"format": "pt"})
    return tmp_path / "model.safetensors"


def test_tensors_of_every_type_are_read(file):
    found = read_tensors([file])
    values = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    assert found.keys() == {*KINDS, "ids"}
    for name, kind in KINDS.items():
        assert found[name].dtype == np.float32
        assert np.array_equal(found[name], values.to(kind).float().numpy())
    with pytest.raises(ModelError, match="has ids in I64, which is not supported"):
        found["ids"]
    assert found.get("absent") is None


def test_numbers_at_odd_places_are_read(file):
    """Other writers than the library need not fill their header up."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].rstrip() + b" " * (3 - len(data[8 : 8 + length].rstrip()) % 4)
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    assert len(header) % 4 == 3
    found = read_tensors([file])["F32"]
    assert found.flags.aligned
    assert np.array_equal(found, torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).numpy())


def changed(data, change):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["F32"] |= change
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"\xff" * 20,
        lambda data: (5).to_bytes(8, "little") + b"[1,2]",
        lambda data: (9).to_bytes(8, "little") + b'{"F32":0}',
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: changed(data, {"shape": [3, 6]}),
        lambda data: changed(data, {"data_offsets": [-60, 0]}),
        lambda data: changed(data, {"data_offsets": [60, 0]}),
        lambda data: changed(data, {"data_offsets": [0, 10**12]}),
        lambda data: changed(data, {"shape": None}),
        lambda data: changed(data, {"dtype": ["F32"]}),
    ],
)
def test_a_damaged_file_is_named(file, damage):
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        read_tensors([file])


def test_a_file_that_changes_is_read_again_even_if_its_time_is_put_back(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    before, times = file_sha256(path), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file_sha256(path) != before
