"""Define the software that `bench.py embed` compares: LangChain, SentenceTransformer, torch.compile and Pilotlight.

Each class converts texts to unit vectors with its own tokenization, configured as the software's documentation says.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmark import langchain_script
from embedder import EmbedderConfig, Embeddings, cpu
from embedder.engines.pytorch import pad
from embedder.model.spec import read_spec

BATCH = 32  # texts; the default of LangChain and SentenceTransformer
Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Setup:
    """The conditions that are equal for all compared programs: model, number of cores, work folder, sample texts."""

    folder: Path
    cores: int
    work: Path
    samples: Sequence[str]  # real texts for the calibration of int8 quantisation


class Peer(Protocol):
    """The interface of the programs that `bench.py embed` compares."""

    name: str
    precision: str

    def load(self) -> None:
        """Load the model. Raises ImportError if a package is missing."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, float32 (n, dim). A single text is a query, several texts are documents."""


class Batches:
    """Converts texts to padded batches of token ids. A batch has up to 32 texts. The longest texts come first."""

    def __init__(self, folder: Path) -> None:
        spec = read_spec(folder)
        self._tokenizer = tokenizers.Tokenizer.from_file(str(spec.tokenizer))
        self._tokenizer.enable_truncation(spec.max_length)
        self._tokenizer.no_padding()
        self._pad = int(spec.config.get("pad_token_id") or 0)
        self.dimension = spec.dimension

    def __call__(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Ids, Ids]]:
        """Yield (positions in `texts`, ids, mask) for each batch. Ids and mask are int64 (b, s)."""
        if len(texts) == 1:
            ids = np.array([self._tokenizer.encode(texts[0]).ids], dtype=np.int64)
            yield [0], ids, np.ones_like(ids)
            return
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        for start in range(0, len(order), BATCH):
            positions = order[start : start + BATCH]
            yield positions, *pad([rows[i] for i in positions], self._pad)


class Pooled(nn.Module):
    """A model of the library transformers that maps token ids to unit vectors by mean pooling."""

    def __init__(self, folder: Path, attention: str) -> None:
        super().__init__()
        from transformers import AutoModel

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.inner = AutoModel.from_pretrained(folder, attn_implementation=attention)
            except ValueError:
                self.inner = AutoModel.from_pretrained(folder)
        self.eval().requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Map ids and mask, int64 (b, s), to unit vectors, float32 (b, d)."""
        hidden = self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).float()
        return F.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)


class LangChain:
    """LangChain's `HuggingFaceEmbeddings`, configured as in `langchain_script`."""

    name, precision = "LangChain eager", "fp32"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def load(self) -> None:
        """Load the model."""
        self._embeddings = langchain_script.embeddings(self._setup.folder)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed a single text as a query, or several texts as documents."""
        if len(texts) == 1:
            return np.array([self._embeddings.embed_query(texts[0])], dtype=np.float32)
        return np.array(self._embeddings.embed_documents(list(texts)), dtype=np.float32)


class SentenceTransformerEager:
    """`SentenceTransformer.encode`, which sorts texts by length and divides them into batches."""

    name, precision = "SentenceTransformer eager", "fp32"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def load(self) -> None:
        """Load the model."""
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(str(self._setup.folder), device="cpu")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts with default options except for normalisation."""
        vectors: Vectors = self._model.encode(
            list(texts), batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors


class TorchCompile:
    """`torch.compile` with freezing and the C++ wrapper, in inference mode.

    This follows "Improve RAG performance with torch.compile on AWS Graviton processors" (PyTorch blog, 2024), but does
    not use the bf16 mode of Arm's library, and uses the faster library `tokenizers`.
    """

    name, precision = "torch.compile, Graviton article", "fp32"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def load(self) -> None:
        """Compile the model for one text and for batches, so that compilation is not timed."""
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(self._setup.work / "inductor"))
        self._batches = Batches(self._setup.folder)
        self._model: Any = torch.compile(
            Pooled(self._setup.folder, "sdpa"), options={"freezing": True, "cpp_wrapper": True}
        )
        for texts in (["a b"], ["a b c d"], ["a b"] * 2, ["a b c d"] * BATCH, ["a"] * (BATCH + 1)):
            self.embed(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one batch after another."""
        vectors = np.empty((len(texts), self._batches.dimension), dtype=np.float32)
        with torch.inference_mode():
            for positions, ids, mask in self._batches(texts):
                vectors[positions] = self._model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        return vectors


class Pilotlight:
    """Pilotlight with one of its engines."""

    def __init__(self, setup: Setup, engine: str, precision: str) -> None:
        self.name, self.precision = f"Pilotlight {engine}", precision
        self._config = EmbedderConfig(model=str(setup.folder), engine=engine, precision=precision, threads=setup.cores)

    def load(self) -> None:
        """Load the model. If the model is not compiled yet, compile it first."""
        if self._config.engine == "aot" and self.precision == "bf16" and not cpu.detect().has_bf16:
            raise RuntimeError("this processor has no fast bf16")
        self._embeddings = Embeddings(self._config)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed a single text as a query, or several texts as documents."""
        return self._embeddings.encode(texts, role="query" if len(texts) == 1 else "document")
