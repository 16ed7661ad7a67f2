"""What the rest of Pilotlight asks of an embedder; `Embeddings` and the tests' dummy both satisfy it."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Role = Literal["query", "document"]


class Embedder(Protocol):
    """Texts in, vectors out."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def max_length(self) -> int:
        """Longest input in tokens, special tokens included; longer texts are truncated."""

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Flat JSON-ready mapping of everything that changes a vector; equal means interchangeable."""

    def count_tokens(self, texts: Sequence[str], *, role: Role = "document") -> list[int]:
        """Tokens of each text, prompt and special tokens included, without truncation."""

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim), in the order given."""
