"""A model's files, read without their libraries: against what the library writes, digests, and damage of every kind."""

import json
import math
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedder import EmbedderConfig
from embedder.engines.build_worker import write_weights
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError, ModelError
from embedder.model.checkpoint import read_head
from embedder.model.files import file_sha256, read_tensors
from embedder.model.tokenizer import PairTokenizer, Tokenizer
from tests.embedder.conftest import config_of, save_tokenizer

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


DAMAGED = 70  # files of each kind of model
ODD = [None, 0, -1, 1, 2**31, 10**30, math.inf, math.nan, 1.5, "", "x" * 5_000, [], {}, [1], {"a": 1}, True, "\ud800"]


@pytest.fixture(scope="module")
def models(make_model, tmp_path_factory):
    from transformers import AutoModelForSequenceClassification

    scorer = tmp_path_factory.mktemp("scorer")
    AutoModelForSequenceClassification.from_config(config_of("bert", num_labels=1)).save_pretrained(scorer)
    save_tokenizer(scorer)
    found = {"pairs": scorer, **{kind: make_model(kind) for kind in ("bert", "mpnet", "modernbert")}}
    for folder in found.values():
        (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "a ", "document": "b "}}')
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": false}')
        (folder / "tokenizer_config.json").write_text('{"model_max_length": 64}')
    return found


def use(folder: Path, target: Path, pairs: bool) -> None:
    """Read all of a model that its native package is made of, and tokenize with it."""
    plan = Plan(EmbedderConfig(str(folder), precision="fp32", pairs=pairs))
    assert plan.package_key
    if pairs:
        read_head(plan.spec)
        PairTokenizer(plan.spec)("the table", ["a row", ""])
    else:
        tokenizer = Tokenizer(plan.spec)
        tokenizer(["the table", "x" * 500], "query")
        tokenizer.count(["a row"], "document")
    if plan.engine == "native":
        write_weights(plan.spec, "int8", "x86_64", target)


def odd(value: object, draw: random.Random) -> object:
    """Return a JSON value with one value in it, at any depth, in place of another, or gone."""
    if isinstance(value, dict | list) and value and draw.random() < 0.9:
        key = draw.choice([*value]) if isinstance(value, dict) else draw.randrange(len(value))
        if draw.random() < 0.1:
            del value[key]
        else:
            value[key] = odd(value[key], draw)
        return value
    return draw.choice(ODD)


def damaged(name: str, data: bytes, draw: random.Random) -> bytes:
    how = draw.randrange(6)
    if how == 0:
        return data[: draw.randrange(len(data))]
    if how == 1:
        return b"[" * 200_000 if name.endswith("json") else (10**6).to_bytes(8, "little") + b"[" * 10**6
    if how == 2:
        flipped = bytearray(data)
        for _ in range(draw.choice([1, 20])):
            flipped[draw.randrange(min(len(data), draw.choice([16, 400, len(data)])))] ^= 1 << draw.randrange(8)
        return bytes(flipped)
    if name.endswith("json"):
        return json.dumps(odd(json.loads(data), draw)).encode()
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(odd(json.loads(data[8 : 8 + length]), draw)).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


@pytest.mark.parametrize("kind", ["bert", "mpnet", "modernbert", "pairs"])
def test_damaged_files_give_typed_errors_of_one_line(models, tmp_path, kind):
    draw = random.Random(kind)
    files = sorted(path.relative_to(models[kind]) for path in models[kind].rglob("*") if path.is_file())
    use(models[kind], tmp_path, kind == "pairs")
    errors = []
    for number in range(DAMAGED):
        folder = Path(shutil.copytree(models[kind], tmp_path / str(number)))
        path = folder / draw.choice(files)
        path.write_bytes(damaged(path.name, path.read_bytes(), draw))
        try:
            use(folder, tmp_path, kind == "pairs")
        except EmbedderError as error:
            errors.append(str(error))
    assert len(errors) > DAMAGED / 3
    assert [text for text in errors if "\n" in text or len(text) > 500] == []
