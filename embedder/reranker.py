"""`Reranker`: scores of pairs of texts by a cross-encoder, on the engines that embed texts."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from embedder.config import EmbedderConfig
from embedder.engines.plan import Plan
from embedder.engines.starting import start_engine
from embedder.errors import EmbedderError, ModelError
from embedder.model.cross_encoder import CrossEncoderSpec, PairTokenizer, read_head


class Reranker:
    """A cross-encoder: reads a query and a text together, and says how well the text answers.

    Raises ModelError, PrecisionError, TorchMissing, CompilerMissing, PackageError or CacheError while loading.
    """

    def __init__(self, config: EmbedderConfig) -> None:
        """Load the model of a config with `pairs`."""
        self.plan = Plan(config)
        spec = self.plan.spec
        if not isinstance(spec, CrossEncoderSpec):
            raise ModelError(f"{spec.name} was not asked for as a cross-encoder: set pairs in its config")
        self.spec = spec
        self._head = read_head(spec)
        self._tokenizer = PairTokenizer(spec)
        self._engine = start_engine(self.plan)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.spec.name

    @property
    def max_length(self) -> int:
        """Longest pair in tokens, special tokens included; of longer ones the longer text is truncated."""
        return self.spec.max_length

    def pairs(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the query with each text, for `logits`."""
        return self._tokenizer(query, texts)

    def logits(self, rows: Sequence[list[int]]) -> npt.NDArray[np.float32]:
        """Return one number a pair, float32 (n,), the higher the better; all go through the model in one batch.

        Raises EmbedderError if the model gives NaN or infinity.
        """
        if not rows:
            return np.empty(0, np.float32)
        found = self._head(self._engine.encode(rows))
        if not np.isfinite(found).all():
            raise EmbedderError(f"the model {self.name} gave NaN or infinity: its weights are damaged; fetch it again")
        return found

    def activated(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return logits as the model's own score: from 0 to 1, or as they are, as its config says."""
        if self.spec.activation == "identity":
            return logits
        return np.asarray(1 / (1 + np.exp(-logits.astype(np.float64))), np.float32)  # in float32 exp would overflow

    def score(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Score texts for a query as sentence-transformers' `CrossEncoder.predict` does; float32 (n,)."""
        return self.activated(self.logits(self.pairs(query, texts)))
