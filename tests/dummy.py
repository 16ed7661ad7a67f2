"""An embedder without a model, so that everything but the embedder can be tested in milliseconds."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.protocol import Role

_TOKEN = re.compile(r"\w+|[^\w\s]")
_SPECIAL = 2  # a real model adds a first and a last token
_STOP = frozenset("a an and are as do does for how i in is it of on or that the this to what with".split())


class DummyEmbedder:
    """Hashed bag of words: texts that share words get similar unit vectors; deterministic everywhere."""

    def __init__(self, dimension: int = 64, max_length: int = 256, name: str = "dummy") -> None:
        self._dimension = dimension
        self._max_length = max_length
        self._name = name
        self.encoded = 0  # texts embedded so far

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_length(self) -> int:
        return self._max_length

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"model": self._name, "dimension": self._dimension, "max_length": self._max_length}

    def count_tokens(self, texts: Sequence[str], *, role: Role = "document") -> list[int]:
        return [len(_TOKEN.findall(text)) + _SPECIAL for text in texts]

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in _TOKEN.findall(text.lower())[: self._max_length - _SPECIAL]:
                if word in _STOP:
                    continue
                digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
                sign = 1.0 if digest[0] & 1 else -1.0
                vector[int.from_bytes(digest[1:5], "little") % self._dimension] += sign
        self.encoded += len(texts)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        empty = norms[:, 0] == 0
        vectors[empty, 0] = 1.0
        norms[empty] = 1.0
        return vectors / norms
