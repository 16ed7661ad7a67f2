"""The embedder of a server: warm, shared by all threads, with a second queue for texts that can wait."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from embedder.config import Role
from embedder.late_interaction import QueryTokens
from embedder.text_embedder import Embedder
from rag.errors import NotThere, RagError
from rag.query.model_queue import WARM_QUERIES, QueryCache, QueryEncoder, Vector


class QueryEmbedding(NamedTuple):
    """Texts and their vectors."""

    vectors: Vector  # (n, dim)
    tokens: int
    model: str


class ServedModel:
    """The embedder in memory, warm, and its queues. Safe to share between threads."""

    def __init__(self, name: str, load: Callable[[], Embedder], cache: QueryCache | None = None) -> None:
        """Load the model and run it in each way that queries do. Raises RagError, or as `load` does."""
        self.name = name
        try:
            self.embedder = load()
            self.encoder = QueryEncoder(self.embedder, cache)
            # texts that can wait do not hold the queue of queries: a long one takes as long as ten queries
            self._background = QueryEncoder(self.embedder.twin())
            for query in WARM_QUERIES:
                self.embedder.encode([query], role="query")
            self.embedder.encode(WARM_QUERIES, role="query")
        except MemoryError as error:
            raise RagError(f"there is no memory for model {self.name}: allow more") from error
        except OSError as error:
            raise RagError(f"model {self.name} cannot be loaded: {error.strerror or error}") from error

    def embed(self, texts: Sequence[str], role: Role, model: str = "") -> QueryEmbedding:
        """Embed texts, in runs next to those of queries. Raises NotThere for another model's name, DeadlinePassed."""
        if model not in ("", self.name):
            raise NotThere(f"there is no model {model[:80]!r}; the model is {self.name}", "model")
        vectors = self._background.encode(texts, role)
        return QueryEmbedding(vectors, sum(self.embedder.count_tokens(texts, role=role)), self.name)

    def embed_queries(self, queries: Sequence[str]) -> list[QueryTokens]:
        """Embed queries, with their tokens. Raises DeadlinePassed."""
        return self._background.encode_tokens([self.embedder.tokenize_query(query) for query in queries])
