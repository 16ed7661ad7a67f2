"""An embedder that is compiled and loaded when its first text comes: a build in which nothing changed needs none."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.engines.plan import Plan
from embedder.late_interaction import DocumentTokens, Floats, QueryTokens, Signs
from embedder.protocol import Embedder, Role


class LazyEmbedder:
    """An embedder that is loaded once it is needed; what its plan tells is known before."""

    def __init__(self, plan: Plan, load: Callable[[], Embedder]) -> None:
        self._plan = plan
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Embedder | None = None

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._plan.spec.dimension

    @property
    def max_length(self) -> int:
        """Longest input in tokens, special tokens included."""
        return self._plan.spec.max_length

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of everything that changes a vector."""
        return self._plan.fingerprint

    def count_tokens(self, texts: Sequence[str], *, role: Role = "document") -> list[int]:
        """Return the tokens of each text; loads the embedder."""
        return self._embedder().count_tokens(texts, role=role)

    def has_word(self, word: str) -> bool:
        """Return whether the model has a token for a whole word; loads the embedder."""
        return self._embedder().has_word(word)

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim); loads the embedder."""
        return self._embedder().encode(texts, role=role)

    def encode_query_tokens(self, texts: Sequence[str]) -> list[QueryTokens]:
        """Embed queries with their tokens; loads the embedder."""
        return self._embedder().encode_query_tokens(texts)

    def encode_document_tokens(self, texts: Sequence[str]) -> DocumentTokens:
        """Embed documents with their tokens; loads the embedder."""
        return self._embedder().encode_document_tokens(texts)

    def maxsim(
        self, query: Floats, signs: Signs, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]
    ) -> Floats:
        """Score passages by their tokens; loads the embedder."""
        return self._embedder().maxsim(query, signs, starts, counts)

    def _embedder(self) -> Embedder:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded
