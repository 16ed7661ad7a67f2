"""Modules around a transformer, against sentence-transformers, which writes and reads the same folders."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from embedder import EmbedderConfig, Embeddings
from embedder.errors import ModelError
from embedder.model.encoder import load_module, pool
from embedder.model.modules import POOLINGS
from embedder.model.spec import read_spec
from tests.embedder.conftest import save_modules
from tests.embedder.engines.kernels import cosines

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
TEXTS = ["", "the index of a table", "create unique key drop vacuum " * 3, "row"]
PROMPTS = {"query": "query the ", "document": "table "}
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "model_max_length": 64,
    "model_input_names": ["input_ids", "attention_mask"],
}


@pytest.fixture(scope="module")
def small(make_model):
    """A BERT of 64, and one of 32, that sentence-transformers can load."""
    folders = [make_model("bert"), make_model("bert", hidden_size=32, num_attention_heads=1, intermediate_size=64)]
    for folder in folders:
        (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    return folders


def transformer(folder):
    from sentence_transformers.base.modules import Transformer

    return Transformer(str(folder))


def dense(inputs, outputs, activation="Identity", **options):
    from sentence_transformers.base.modules import Dense

    torch.manual_seed(inputs + outputs)
    return Dense(inputs, outputs, activation_function=getattr(torch.nn, activation)(), **options)


def saved(folder, *modules):
    """Save modules as sentence-transformers does, and return the model as it loads it again."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(modules=list(modules), prompts=PROMPTS, device="cpu").save(str(folder), create_model_card=False)
    return SentenceTransformer(str(folder), device="cpu")


def check(folder, theirs):
    """Compare vectors of both roles by the module alone; return the embeddings."""
    ours = Embeddings(EmbedderConfig(model=str(folder), engine="eager", precision="fp32"))
    for role, encode in (("query", theirs.encode_query), ("document", theirs.encode_document)):
        expected = encode(TEXTS)
        vectors = ours.encode(TEXTS, role=role)
        assert vectors.shape == expected.shape
        assert cosines(vectors, expected).min() > 0.99999
        scale = np.linalg.norm(expected, axis=1) / np.linalg.norm(vectors, axis=1)
        assert np.allclose(scale, 1, atol=1e-4)
    return ours


@pytest.mark.parametrize("name", POOLINGS)
def test_poolings(name):
    from sentence_transformers.sentence_transformer.modules import Pooling

    hidden = torch.randn(3, 7, 8, generator=torch.Generator().manual_seed(4))
    mask = (torch.arange(7)[None] < torch.tensor([7, 1, 4])[:, None]).long()
    expected = Pooling(8, name)({"token_embeddings": hidden, "attention_mask": mask})["sentence_embedding"]
    assert torch.allclose(pool(name, hidden, mask), expected, atol=1e-6)


def test_dense_layers(small, tmp_path):
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.sentence_transformer.modules import Dropout, Pooling

    theirs = saved(
        tmp_path / "model",
        transformer(small[0]),
        Pooling(64, ("lasttoken", "mean")),
        Dropout(0.5),
        dense(128, 96, "Tanh"),
        dense(96, 160, bias=False),
        Normalize(),
    )
    ours = check(tmp_path / "model", theirs)
    assert (ours.dimension, ours.spec.query_prompt, ours.spec.document_prompt) == (160, *PROMPTS.values())
    assert ours.fingerprint["pooling"] == "lasttoken+mean"
    assert ours.fingerprint["modules"] == "Dense(128,96,Tanh) Dense(96,160,Identity) Normalize"


def test_the_layout_of_older_versions(small, tmp_path):
    """Folders for every module, flags for poolings, class names of versions 1 to 4, prompts for passages."""
    from sentence_transformers import SentenceTransformer

    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copytree(small[0], folder / "0_Transformer", ignore=shutil.ignore_patterns("modules.json", "1_Pooling"))
    save_modules(folder)
    rows = json.loads((folder / "modules.json").read_text())
    rows[0]["path"] = "0_Transformer"
    rows.insert(2, {"idx": 2, "name": "dense", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(rows))
    flags = {f"pooling_mode_{name}": name in {"mean_tokens", "cls_token"} for name in ("mean_tokens", "cls_token")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 64, **flags}))
    (folder / "2_Dense").mkdir()
    dense(128, 32, "Tanh").save(str(folder / "2_Dense"))
    written = json.loads((folder / "2_Dense" / "config.json").read_text())
    kept = {key: written[key] for key in ("in_features", "out_features", "bias", "activation_function")}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(kept))
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text('{"max_seq_length": 16, "do_lower_case": true}')
    ours = check(folder, SentenceTransformer(str(folder), device="cpu"))
    assert ours.spec.pooling == ("cls", "mean")
    assert (ours.dimension, ours.max_length) == (32, 16)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"in_features": 48}, "takes vectors of 48 numbers, but the module before it returns 64"),
        ({"activation_function": "evil.Module"}, "the activation evil.Module, or use_residual, which is not supported"),
        ({"use_residual": True}, "or use_residual, which is not supported"),
        ({"out_features": "many"}, "has an invalid value: .*'many'"),
        (None, "a pytorch_model.bin is a pickle"),
        ({"out_features": 24}, "does not fit its config.json"),
    ],
)
def test_a_spoilt_dense_layer_is_told(small, tmp_path, values, told):
    folder = Path(shutil.copytree(small[0], tmp_path / "model"))
    rows = json.loads((folder / "modules.json").read_text())
    rows[2] |= {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "2_Dense").mkdir()
    dense(64, 32).save(str(folder / "2_Dense"))
    config = folder / "2_Dense" / "config.json"
    assert read_spec(folder).dimension == 32
    if values is None:
        (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    else:
        config.write_text(json.dumps(json.loads(config.read_text()) | values))
    with pytest.raises(ModelError, match=told):
        load_module(read_spec(folder))
