"""`Embeddings`: the embedding class. Keeps the model handle, so that it can be compiled now or later."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from langchain_core.embeddings import Embeddings as LangChainEmbeddings

from embedder import batching, compilation, engines, package
from embedder.cache import open_private
from embedder.config import EmbedderConfig, Plan
from embedder.errors import EmbedderError
from embedder.protocol import Role
from embedder.sentence import SentenceEncoder, load_module
from embedder.tokenizer import Tokenizer

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Embeddings(LangChainEmbeddings):
    """A sentence-transformers model behind LangChain's interface, on one of three engines.

    Raises ModelError, PrecisionError, CompilerMissing, PackageError or CacheError while loading.
    """

    def __init__(self, config: EmbedderConfig | None = None) -> None:
        self.plan = Plan(config or EmbedderConfig())
        self.config = self.plan.config
        self.spec = self.plan.spec
        self.precision = self.plan.precision
        self.threads = self.plan.threads
        torch.set_num_threads(self.threads)
        self.tokenizer = Tokenizer(self.spec)
        self.engine = self._start_engine()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.spec.dimension

    @property
    def max_length(self) -> int:
        """Longest input in tokens, special tokens included; longer texts are truncated."""
        return self.spec.max_length

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of everything that changes a vector; equal means interchangeable."""
        return self.plan.fingerprint

    @cached_property
    def model(self) -> SentenceEncoder:
        """The loaded module in this precision: (ids, mask) int64 (b, s) → float32 (b, d).

        The aot engine runs without it, and loads it when it is first asked for.
        """
        return load_module(self.spec).to(_DTYPES[self.precision])

    def count_tokens(self, texts: Sequence[str], *, role: Role = "document") -> list[int]:
        """Tokens of each text, prompt and special tokens included, without truncation."""
        return self.tokenizer.count(texts, role)

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim), in the order given; over-long texts are truncated.

        Raises TypeError for anything but a sequence of str, EmbedderError if the model gives NaN or infinity.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("encode takes a sequence of str")
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        if not len(texts):
            return vectors
        rows = self.tokenizer(texts, role)
        with torch.inference_mode():
            for batch in batching.plan([len(row) for row in rows]):
                ids, mask = self.tokenizer.pad([rows[i] for i in batch])
                vectors[batch] = self.engine.run(ids, mask).numpy()
        if not np.isfinite(vectors).all():
            raise EmbedderError(
                f"the model {self.spec.name} gave NaN or infinity: its weights are damaged; fetch it again"
            )
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed one query, with the model's query prompt; `dim` floats."""
        vector: list[float] = self.encode([text], role="query")[0].tolist()
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents, with the model's document prompt; `dim` floats each."""
        vectors: list[list[float]] = self.encode(texts, role="document").tolist()
        return vectors

    def _start_engine(self) -> engines.Engine:
        if self.config.engine == "eager":
            return engines.EagerEngine(self.model)
        if self.config.engine == "compile":
            return engines.CompiledEngine(self.model, open_private(self.config.cache_dir))
        path = package.ensure(
            self.config.cache_dir,
            self.plan.package_key,
            lambda path: compilation.compile_package(self.model, self.max_length, self.threads, path),
        )
        self.__dict__.pop("model", None)  # the package holds its own copy of the weights; `.model` loads again if asked
        return engines.PackagedEngine(path)
