import json
import shutil

import pytest

from embedder.config import PACKAGED, locate
from embedder.errors import ModelError, RemoteCodeRefused
from embedder.model.encoder import load_module
from embedder.model.spec import read_spec


@pytest.fixture
def folder(make_model, tmp_path):
    """A bert model that the test may spoil."""
    return shutil.copytree(make_model("bert"), tmp_path / "model")


def test_packaged_model_is_read_from_its_own_files():
    spec = read_spec(locate(PACKAGED))
    assert (spec.name, spec.dimension, spec.max_length) == (PACKAGED, 384, 256)
    assert (spec.pooling, spec.normalize, spec.query_prompt) == (("mean",), True, "")


def test_pooling_as_newer_sentence_transformers_write_it(folder):
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": ["mean", "cls"], "include_prompt": true}')
    assert read_spec(folder).pooling == ("mean", "cls")


def test_a_plain_transformers_folder_pools_by_mean(folder):
    (folder / "modules.json").unlink()
    spec = read_spec(folder)
    assert (spec.pooling, spec.normalize) == (("mean",), False)


def test_prompts_and_length(folder):
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: ", "passage": "p: "}}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32, "do_lower_case": true}')
    spec = read_spec(folder)
    assert (spec.query_prompt, spec.document_prompt) == ("q: ", "p: ")
    assert (spec.max_length, spec.lowercase) == (32, True)


def test_fingerprint_changes_with_weights_and_prompts(folder):
    before = read_spec(folder).fingerprint
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: "}}')
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(data))
    after = read_spec(folder).fingerprint
    assert {name for name in before if before[name] != after[name]} == {"weights_sha256", "query_prompt"}


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", "[]", "not a JSON object"),
        ("modules.json", "[{}]", "modules.json has no valid 'type'"),
        ("modules.json", '[{"type": "sentence_transformers.models.LSTM", "path": ""}]', "LSTM, which is not supported"),
        ("modules.json", '[{"type": "sentence_transformers.models.Normalize", "path": ".."}]', "outside of the model"),
        (
            "modules.json",
            '[{"type": "sentence_transformers.models.Transformer", "path": ""}]',
            "in an order that is not",
        ),
        (
            "modules.json",
            '[{"type": "sentence_transformers.sparse_encoder.models.SpladePooling.SpladePooling", "path": ""}]',
            "choose a model that gives one vector for a text",
        ),
        ("config_sentence_transformers.json", '{"model_type": "SparseEncoder"}', "describes a SparseEncoder"),
        ("sentence_bert_config.json", '{"transformer_task": "fill-mask"}', "a model for fill-mask"),
        ("1_Pooling/config.json", '{"pooling_mode": "median"}', "the pooling median, which is not supported"),
        ("1_Pooling/config.json", '{"pooling_mode": "mean", "include_prompt": false}', "include_prompt"),
        ("config.json", {"auto_map": {"AutoModel": "modeling_evil.Evil"}}, r"auto_map.*never done"),
        ("modules.json", '[{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]', r"evil\.Module.*never run"),
        ("config.json", {"intermediate_size": 160}, "do not fit config"),
        ("config.json", {"num_hidden_layers": 3}, r"no tensor 'encoder\.layer\.2"),
        ("config.json", {"model_type": "no-such-type"}, "no-such-type"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("model.safetensors", None, "model.safetensors is missing"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "../other.safetensors"}}', "missing"),
    ],
)
def test_a_spoilt_folder_is_named(folder, file, content, told):
    if content is None:
        (folder / file).unlink()
    elif isinstance(content, dict):
        (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | content))
    else:
        (folder / file).write_text(content)
    with pytest.raises(RemoteCodeRefused if "never" in told else ModelError, match=told):
        load_module(read_spec(folder))


def test_pickled_weights_are_never_loaded(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pickle"):
        read_spec(folder)


@pytest.mark.parametrize(
    ("model", "revision", "told"),
    [
        ("/no/such/folder", "", "no model at"),
        ("unknown-name", "", "no model at"),
        ("owner/model", "", "pinned revision"),
        ("owner/model", "main", "pinned revision"),
    ],
)
def test_models_that_cannot_be_located(model, revision, told):
    with pytest.raises(ModelError, match=told):
        locate(model, revision)
