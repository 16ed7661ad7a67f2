"""The model of a process: the embedder of the settings, and the queue that all who use it share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.config import EmbedderConfig
from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from embedder.protocol import Embedder, Role
from indexer.generation.manifest import Manifest, differing_fields
from rag.errors import FingerprintMismatch, ModelMissing, RagError
from rag.query.batcher import QueryBatcher

WARM_QUERIES = "warm", "a longer query that fills a second shape of the model's input"
_RUN_TOKENS = 256  # some tens of milliseconds


class Embedding(NamedTuple):
    """Texts and their vectors."""

    vectors: npt.NDArray[np.float32]  # (n, dim)
    tokens: int  # of all texts, including those beyond the model's length
    model: str  # name of the model


class ServedModel:
    """The embedder in memory, warm, and its queue. Safe to share between threads."""

    def __init__(
        self, name: str, load: Callable[[], Embedder], on_run: Callable[[int, int], None] | None = None
    ) -> None:
        """Load the model and run it in each way that queries do. Raises RagError, or as `load` does."""
        self.name = name
        try:
            self.embedder = load()
            self.batcher = QueryBatcher(self.embedder, on_run)
            for query in WARM_QUERIES:
                self.embedder.encode([query], role="query")
            self.embedder.encode(WARM_QUERIES, role="query")
        except PilotlightError:
            raise
        except MemoryError as error:
            raise RagError(f"there is no memory for model {self.name}: allow more") from error
        except OSError as error:
            raise RagError(f"model {self.name} cannot be loaded: {error.strerror or error}") from error

    def embed(self, texts: Sequence[str], role: Role, model: str = "") -> Embedding:
        """Embed texts after all queries that wait. Raises ModelMissing for another model's name, or DeadlinePassed."""
        if model not in ("", self.name):
            raise ModelMissing(model, [self.name])
        vectors = np.empty((len(texts), self.embedder.dimension), np.float32)
        for run in runs([self.batcher.bound(text) for text in texts]):
            vectors[run] = self.batcher.encode(texts[run], role, later=True)
        return Embedding(vectors, sum(self.embedder.count_tokens(texts, role=role)), self.name)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens. Raises DeadlinePassed."""
        found: list[QueryTokens] = []
        for run in runs([self.batcher.bound(query) for query in queries]):
            found += self.batcher.encode_tokens(queries[run], later=True)
        return found


def runs(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield slices of texts of so many tokens each, short enough for a query that comes meanwhile to wait for.

    Callers with many texts have their turn after each slice, as the queue is first come, first served.
    """
    start = tokens = 0
    for place, size in enumerate(sizes):
        if place > start and tokens + size > _RUN_TOKENS:
            yield slice(start, place)
            start, tokens = place, 0
        tokens += size
    if sizes:
        yield slice(start, len(sizes))


def check_fingerprint(manifest: Manifest, fingerprint: Mapping[str, object]) -> None:
    """Raise FingerprintMismatch naming every field in which an index differs from the embedder."""
    built = manifest.fingerprint
    fields = differing_fields(built, fingerprint)
    if not fields:
        return
    details = "; ".join(
        f"{name}: index {_short(built.get(name))}, here {_short(fingerprint.get(name))}" for name in fields
    )
    flags = ""  # of the model that made the generation, as far as its manifest has them
    if isinstance(made := manifest.settings.get("model"), dict):
        made = made | {"precision": built.get("precision", "")}
        names = [name for name in EmbedderConfig.__dataclass_fields__ if made.get(name)]
        flags = " ".join(f"--{name.replace('_', '-')} {_quoted(made[name])}" for name in names)
        flags = f" ({flags})"
    raise FingerprintMismatch(
        f"index generation {manifest.id} was built by another embedder ({details}): use the settings it was built "
        f"with{flags}, or build an index with these settings in another folder (--index) and serve that"
    )


def _quoted(value: object) -> str:
    text = str(value)
    is_plain = text.translate(dict.fromkeys(map(ord, "/-._"))).isalnum()
    return text if is_plain else f"{text!r}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 16 else f"{text[:13]}…"
