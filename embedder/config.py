"""The settings to load and run a model with."""

from dataclasses import dataclass, field
from pathlib import Path

from embedder.cache import default_folder
from embedder.model.spec import PACKAGED

ENGINES = ("auto", "native", "aot", "compile", "eager")
PRECISIONS = ("auto", "fp32", "bf16", "int8")


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """The model to load, and the engine and precision to run it with."""

    model: str = PACKAGED  # the packaged model, a folder, or a hub name
    revision: str = ""  # commit hash, for a hub name
    query_prompt: str = ""  # what goes before a text of the role; empty = as the model's files say
    document_prompt: str = ""
    dimensions: int = 0  # numbers of a vector that are kept; 0 = all
    engine: str = "auto"
    precision: str = "auto"
    threads: int = 0  # cores a forward pass uses; 0 = all physical cores
    cache_dir: Path = field(default_factory=default_folder)
    pairs: bool = False  # whether it is a cross-encoder, which scores pairs of texts
