"""Tiny models with random weights, one per architecture, saved as sentence-transformers folders."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from embedder.engines import library

WORDS = ["the", "a", "of", "index", "table", "query", "row", "key", "partial", "unique", "create", "drop", "vacuum"]
SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
}


def config_of(kind: str, **sizes: int | str):
    import transformers as t

    own, sizes = sizes, SIZES | sizes

    if kind == "distilbert":
        return t.DistilBertConfig(
            vocab_size=sizes["vocab_size"],
            dim=sizes["hidden_size"],
            n_layers=sizes["num_hidden_layers"],
            n_heads=sizes["num_attention_heads"],
            hidden_dim=sizes["intermediate_size"],
            max_position_embeddings=sizes["max_position_embeddings"],
            initializer_range=sizes["initializer_range"],
            **({"num_labels": sizes["num_labels"]} if "num_labels" in sizes else {}),
        )
    if kind == "modernbert":
        # a window of 8 tokens to either side, which short texts leave too
        special = {"pad_token_id": 0, "bos_token_id": 3, "cls_token_id": 3, "eos_token_id": 4, "sep_token_id": 4}
        return t.ModernBertConfig(**sizes | {"local_attention": 16, "num_hidden_layers": 4} | special | own)
    classes = {
        "bert": t.BertConfig,
        "roberta": t.RobertaConfig,
        "xlm-roberta": t.XLMRobertaConfig,
        "camembert": t.CamembertConfig,
        "mpnet": t.MPNetConfig,
        "electra": t.ElectraConfig,  # outside the family: goes through transformers
        "deberta-v2": t.DebertaV2Config,
    }
    pad = {"bert": 0, "electra": 0, "deberta-v2": 0}.get(kind, 1)
    return classes[kind](**sizes, pad_token_id=pad)


def save_tokenizer(folder: Path) -> None:
    vocabulary = {"[PAD]": 0, "<pad>": 1, "[UNK]": 2, "[CLS]": 3, "[SEP]": 4} | {w: i + 5 for i, w in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 3), ("[SEP]", 4)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def save_modules(folder: Path, pooling: str = "mean", normalize: bool = True) -> None:
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")] + ([("2_Normalize", "Normalize")] if normalize else [])
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps(
            {"word_embedding_dimension": 64, f"pooling_mode_{'mean_tokens' if pooling == 'mean' else pooling}": True}
        )
    )


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the native library of this architecture, compiled."""
    target = tmp_path_factory.mktemp("library") / library.LIBRARY
    library.compile_library(target, library.architecture())
    return target


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that saves a random model of an architecture, of SIZES or others, to a folder of its own."""

    def make(kind: str, **sizes: int | str) -> Path:
        from transformers import AutoModel

        torch.manual_seed(7)
        folder = tmp_path_factory.mktemp(kind)
        model = AutoModel.from_config(config_of(kind, **sizes))
        model.save_pretrained(folder, safe_serialization=True)
        save_tokenizer(folder)
        save_modules(folder)
        return folder

    return make
