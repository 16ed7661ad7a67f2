"""Protocols of the models, for the rest of Pilotlight: of `Embeddings` and `Reranker`, and of the dummies of tests."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import DocumentTokens, Floats, QueryTokens, Signs

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

    def has_word(self, word: str) -> bool:
        """Return whether the model has a token for a whole word, without regard to case: it is a word, no mistake."""

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        """Embed texts; returns float32 (n, dim), in the order given."""

    def encode_query_tokens(self, texts: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, each as one vector and as one for each of its tokens, in one pass."""

    def encode_document_tokens(self, texts: Sequence[str]) -> DocumentTokens:
        """Embed documents, each as one vector and as the signs of its tokens, in one pass."""

    def maxsim(
        self, query: Floats, signs: Signs, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]
    ) -> Floats:
        """Score passages by their tokens, float32 (n,); see `late_interaction.maxsim`."""


def encode_documents(embedder: Embedder, texts: Sequence[str], *, tokens: bool) -> DocumentTokens:
    """Embed documents, with their tokens only if those are wanted."""
    if tokens:
        return embedder.encode_document_tokens(texts)
    return DocumentTokens.without(embedder.encode(texts, role="document"))


class CrossEncoder(Protocol):
    """Tells how well texts answer a query, reading the two together."""

    @property
    def name(self) -> str:
        """Name of the model."""

    def pairs(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the query with each text, for `logits`."""

    def logits(self, rows: Sequence[list[int]]) -> npt.NDArray[np.float32]:
        """Return one number a pair, float32 (n,), the higher the better."""

    def activated(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return logits as the model's own scores."""
