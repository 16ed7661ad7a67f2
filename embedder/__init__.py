"""Convert texts to embedding vectors on a CPU.

`Embeddings` is imported on first access, so that importing `embedder.errors` does not import LangChain.
"""

from typing import TYPE_CHECKING, Any

from embedder import cpu
from embedder.config import EmbedderConfig

if TYPE_CHECKING:
    from embedder.langchain import Embeddings

__all__ = ["EmbedderConfig", "Embeddings"]

cpu.prepare_torch()


def __getattr__(name: str) -> Any:
    if name == "Embeddings":
        from embedder.langchain import Embeddings

        return Embeddings
    raise AttributeError(f"module 'embedder' has no attribute {name!r}")
