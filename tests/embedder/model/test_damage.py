"""Models from strangers: whatever their files hold, a typed error names the fault, or the model works."""

import json
import math
import random
import shutil
from pathlib import Path

import pytest

from embedder import EmbedderConfig
from embedder.engines.build_worker import write_weights
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError
from embedder.model.checkpoint import read_head
from embedder.model.tokenizer import PairTokenizer, Tokenizer
from tests.embedder.conftest import config_of, save_tokenizer

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
