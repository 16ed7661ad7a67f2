"""Embed texts with `Embedder`, and score pairs of texts with `CrossEncoder`. Imports torch only if needed."""

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from embedder.config import EmbedderConfig, Role
from embedder.engines.native import NativeEngine
from embedder.engines.package import ensure_package, library_file, open_private
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError
from embedder.late_interaction import DocumentTokens, Floats, QueryTokens, Signs, first_occurrences, to_signs, unit
from embedder.model.checkpoint import read_head
from embedder.model.tokenizer import PairTokenizer, TokenIds, TokenizedText, Tokenizer

if TYPE_CHECKING:
    from embedder.engines.pytorch import TorchEngine
    from embedder.model.encoder import SentenceEncoder

MAX_GROUP_TOKENS = 16_384  # tokens encoded together; their vectors take 24 MB with the default model


class Embedder:
    """A sentence-transformers model that converts texts to vectors.

    Args:
        model: a packaged model, a folder or a hub name; or a config. The default is the packaged model.

    Raises:
        ModelError, PrecisionError, TorchMissing, CompilerMissing, PackageError, CacheError: while loading.
    """

    def __init__(self, model: str | EmbedderConfig | None = None) -> None:
        config = EmbedderConfig(model) if isinstance(model, str) else model
        self.plan = Plan(config or EmbedderConfig())
        self.spec = self.plan.spec
        self.precision = self.plan.precision
        self.dimension = self.spec.dimension
        self.is_multilingual = self.spec.is_multilingual
        self.max_length = self.spec.max_length
        self.tokenizer = Tokenizer(self.spec)
        self._query_engine = start_engine(self.plan.queries, lambda: self.model)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Flat mapping of everything that affects vectors. Vectors of models with equal fingerprints are comparable."""
        return self.plan.fingerprint

    @cached_property
    def model(self) -> "SentenceEncoder":
        """The PyTorch module, which maps ids and mask, int64 (b, s), to vectors, float32 (b, d).

        The module is loaded at the first access, because engines that run compiled files do not need it.
        """
        from embedder.model.encoder import load_module

        return load_module(self.spec, self.precision)

    @cached_property
    def _document_engine(self) -> "NativeEngine | TorchEngine":
        """The engine for documents. If queries have another precision, a second engine starts at the first access."""
        return self._query_engine if self.plan.queries is self.plan else start_engine(self.plan)

    def twin(self) -> "Embedder":
        """Return a copy with the same weights but separate threads, so that no query waits for a batch of documents.

        Engines of torch are shared, because torch has only one thread pool per process.
        """
        twin = copy.copy(self)
        if isinstance(self._query_engine, NativeEngine):
            twin._query_engine = self._query_engine.twin()
            twin.__dict__.pop("_document_engine", None)
        return twin

    def count_tokens(self, texts: Sequence[str], *, role: Role = "document") -> list[int]:
        """Count the tokens of each text, including the prompt of the role and special tokens, without truncation."""
        return self.tokenizer.count(texts, role)

    def has_word(self, word: str) -> bool:
        """Return whether a word is a single token of the model, ignoring case."""
        return self.tokenizer.has(word)

    def count_broken(self, texts: Sequence[str]) -> tuple[int, int]:
        """Count the broken word pieces (single letters and unknown tokens), and all word pieces, in some texts."""
        return self.tokenizer.count_broken(texts)

    def tokenize(self, texts: Sequence[str], *, role: Role = "document") -> list[list[int]]:
        """Return the token ids of each text for `encode_ids`, including the prompt of the role and special tokens.

        Texts are truncated to `max_length` tokens. Raises TypeError if `texts` is not a sequence of str.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("encode takes a sequence of str")
        return self.tokenizer(texts, role) if len(texts) else []

    def tokenize_query(self, text: str) -> TokenizedText:
        """Return the token ids of a query, with the counts that `count_broken` returns."""
        return self.tokenizer.read(text, "query")

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> Floats:
        """Embed texts.

        Args:
            texts: n texts, truncated to `max_length` tokens.
            role: selects the prompt and precision for queries or for documents.

        Returns:
            Vectors in the order of the texts, float32 (n, dim).

        Raises:
            TypeError: `texts` is not a sequence of str.
            EmbedderError: the model returns NaN or infinity.
        """
        return self.encode_ids(self.tokenize(texts, role=role), role=role)[0]

    def encode_ids(
        self, rows: Sequence[TokenIds], *, role: Role = "document", tokens: bool = False
    ) -> tuple[Floats, list[Floats]]:
        """Embed texts by their token ids.

        Args:
            rows: token ids of n texts, from `tokenize`.
            role: selects the precision for queries or for documents.
            tokens: whether to return the vectors of tokens too.

        Returns:
            Vectors, float32 (n, dim). If `tokens` is true, also the unit-length token vectors of each text, float32
            (count, width).

        Raises:
            EmbedderError: the model returns NaN or infinity.
        """
        if not rows:
            return np.empty((0, self.dimension), dtype=np.float32), []
        engine = self._query_engine if role == "query" else self._document_engine
        vectors, states = engine.encode(rows, tokens=tokens)
        return check_finite(vectors, self.spec.name), list(map(unit, states)) if tokens else []

    def encode_query_tokens(self, texts: Sequence[str]) -> list[QueryTokens]:
        """Return the vectors of queries and of their tokens. Raises EmbedderError if a vector has NaN or infinity."""
        tokenized = [self.tokenize_query(text) for text in texts]
        vectors, tokens = self.encode_ids([each.ids for each in tokenized], role="query", tokens=True)
        return [QueryTokens(*each) for each in zip(vectors, tokens, (each.broken for each in tokenized), strict=True)]

    def encode_document_tokens(self, texts: Sequence[str], rows: Sequence[TokenIds] | None = None) -> DocumentTokens:
        """Return vectors of texts and signs of their distinct token vectors; see the function `encode_documents`."""
        rows = self.tokenize(texts) if rows is None else rows
        positions_by_text = [first_occurrences(np.asarray(row, np.int32)) for row in rows]
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        signs = [np.empty((0, self.spec.hidden // 8), dtype=np.uint8)]
        groups = (np.cumsum([len(row) for row in rows]) // MAX_GROUP_TOKENS).tolist()
        start = 0
        for _, group in groupby(groups):
            stop = start + len(list(group))
            vectors[start:stop], states = self._document_engine.encode(rows[start:stop], tokens=True)
            signs += [to_signs(state[i]) for state, i in zip(states, positions_by_text[start:stop], strict=True)]
            start = stop
        counts = np.array([len(positions) for positions in positions_by_text], dtype=np.int32)
        return DocumentTokens(check_finite(vectors, self.spec.name), np.concatenate(signs), counts)

    def maxsim(
        self, query: Floats, signs: Signs, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]
    ) -> Floats:
        """Score passages by the token vectors of a query. Has the arguments and result of `late_interaction.maxsim`."""
        return self._query_engine.maxsim(query, signs, starts, counts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query with the model's prompt for queries. Returns `dim` floats."""
        vector: list[float] = self.encode([text], role="query")[0].tolist()
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents with the model's prompt for documents. Returns `dim` floats for each."""
        vectors: list[list[float]] = self.encode(texts, role="document").tolist()
        return vectors


class CrossEncoder:
    """A cross-encoder, a model that reads a query and a text together and scores how well the text answers the query.

    Raises ModelError, PrecisionError, TorchMissing, CompilerMissing, PackageError or CacheError while loading.
    """

    def __init__(self, config: EmbedderConfig) -> None:
        """Load the cross-encoder that `config` names. `config.pairs` must be true."""
        self.plan = Plan(config)
        self.spec = self.plan.spec
        self.name = self.spec.name
        self._head = read_head(self.spec)
        self.pairs = PairTokenizer(self.spec)  # converts pairs of texts to the token ids that `logits` takes
        self._engine = start_engine(self.plan)

    def logits(self, rows: Sequence[list[int]]) -> npt.NDArray[np.float32]:
        """Return the logits, float32 (n,), for the token ids of n pairs. Raises EmbedderError if one is not finite."""
        if not rows:
            return np.empty(0, np.float32)
        return check_finite(self._head(self._engine.encode(rows)[0]), self.name)

    def to_scores(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Convert logits to scores with the activation in the model's config: sigmoid or identity."""
        if self.spec.activation == "identity":
            return logits
        return np.asarray(1 / (1 + np.exp(-logits.astype(np.float64))), np.float32)  # exp overflows in float32


def encode_documents(
    embedder: Embedder, texts: Sequence[str], *, tokens: bool, rows: Sequence[TokenIds] | None = None
) -> DocumentTokens:
    """Embed documents, with or without the signs of their token vectors.

    Args:
        texts: n texts, truncated to the model's maximum length.
        tokens: whether to return the signs of token vectors too. If false, `counts` is 0 for every text.
        rows: token ids of the texts, if the caller already has them.

    Raises:
        EmbedderError: the model returns NaN or infinity.
    """
    if tokens:
        return embedder.encode_document_tokens(texts, rows)
    return DocumentTokens.without(embedder.encode(texts) if rows is None else embedder.encode_ids(rows)[0])


def check_finite(values: Floats, name: str) -> Floats:
    """Return a model's output unchanged. Raises EmbedderError if it contains NaN or infinity."""
    if not np.logical_and.reduce(np.isfinite(values), axis=None):
        raise EmbedderError(f"the model {name} returned NaN or infinity: its weights are damaged; fetch it again")
    return values


def start_engine(plan: Plan, module: "Callable[[], SentenceEncoder] | None" = None) -> "NativeEngine | TorchEngine":
    """Return the engine for a plan. If compiled files that the engine needs are missing, build them first.

    torch is imported only if the engine needs it. Raises ModelError and the errors of `ensure_package`.

    Args:
        module: function that returns the PyTorch module for the engines compile and eager; by default `load_module`.
    """
    key = plan.package_key
    if plan.engine == "native" and key:
        folder = ensure_package(plan, key)
        return NativeEngine(folder, library_file(plan), plan.spec, plan.precision, plan.threads, plan.isa)
    import torch

    from embedder.engines.pytorch import TorchEngine, compile_module, load_package
    from embedder.model.encoder import WithStates, load_module

    torch.set_num_threads(plan.threads)
    if key:
        return TorchEngine(plan.spec, load_package(ensure_package(plan, key)))
    run = WithStates(module() if module else load_module(plan.spec, plan.precision))
    if plan.engine == "compile":
        return TorchEngine(plan.spec, compile_module(run, open_private(plan.config.cache_dir)))
    return TorchEngine(plan.spec, run)
