"""The models that are measured: the packaged one, and all-mpnet-base-v2's architecture with random weights."""

import json
from pathlib import Path
from typing import Any

from embedder.model import PACKAGED, locate

ARCHITECTURES = ("minilm", "mpnet")
_MPNET_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_MPNET_LENGTH = 384  # tokens, as all-mpnet-base-v2 has it


def model_folder(architecture: str, work: Path) -> Path:
    """Return the folder of a sentence-transformers model of the architecture, made in `work` where need be."""
    return locate(PACKAGED) if architecture == "minilm" else write_mpnet(work / "mpnet")


def write_mpnet(folder: Path) -> Path:
    """Save an MPNet of base size with random weights and the packaged model's words."""
    import torch
    from transformers import MPNetConfig, MPNetModel

    torch.manual_seed(7)
    folder.mkdir(parents=True)
    MPNetModel(MPNetConfig()).save_pretrained(folder, safe_serialization=True)
    tokenizer = json.loads((locate(PACKAGED) / "tokenizer.json").read_text(encoding="utf-8"))
    _write(folder / "tokenizer.json", as_mpnet(tokenizer))
    names = dict(zip(("cls_token", "pad_token", "sep_token", "unk_token"), _MPNET_SPECIAL, strict=True))
    _write(
        folder / "tokenizer_config.json",
        {
            **names,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "mask_token": "<mask>",
            "model_max_length": _MPNET_LENGTH,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "attention_mask"],
        },
    )
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    _write(folder / "modules.json", rows)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": _MPNET_LENGTH, "do_lower_case": False})
    for path, _ in kinds[1:]:
        (folder / path).mkdir()
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 768, "pooling_mode_mean_tokens": True})
    return folder


def as_mpnet(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Return BERT's tokenizer with MPNet's special tokens in front of the words, and its mask behind them."""
    words: dict[str, int] = tokenizer["model"]["vocab"]
    vocabulary = {name: i for i, name in enumerate(_MPNET_SPECIAL)}
    vocabulary |= {word: i + len(_MPNET_SPECIAL) for word, i in words.items()}
    vocabulary["<mask>"] = len(vocabulary)
    special = [*_MPNET_SPECIAL, "<mask>"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    start, end = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>"))
    text = [{"Sequence": {"id": name, "type_id": 0}} for name in ("A", "B")]
    return tokenizer | {
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": vocabulary[name], "content": name, **flags} for name in special],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, text[0], end],
            "pair": [start, text[0], end, end, text[1], end],
            "special_tokens": {
                name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("<s>", "</s>")
            },
        },
        "model": tokenizer["model"] | {"vocab": vocabulary, "unk_token": "<unk>"},
    }


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
