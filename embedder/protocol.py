"""Protocol of an embedder for the rest of Pilotlight; implemented by `Embeddings` and the tests' dummy."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Role = Literal["query", "document"]


class Embedder(Protocol):
    """Turns texts into vectors."""

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
        """Return the number of tokens of each text, prompt and special tokens included, without truncation."""

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        """Embed texts; returns float32 (n, dim), in the order given."""
