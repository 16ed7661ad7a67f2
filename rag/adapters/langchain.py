"""Pilotlight as a retriever and as a reranker of LangChain."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, SkipValidation

from rag.adapters.passages import Ranker, Searcher, best_of, metadata_of
from rag.query.request import DEFAULT_COLLECTION, Filter, Mode, SearchRequest
from rag.query.results import text_of


class PilotlightRetriever(BaseRetriever):
    """Finds passages for a chain; raises what its searcher raises."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    searcher: SkipValidation[Searcher]
    k: int = 4
    mode: Mode = "hybrid"
    filter: dict[str, Any] | None = None  # as in the REST API
    collection: str = DEFAULT_COLLECTION
    rerank: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        """Return the passages that answer a query; `k` of this call goes before the retriever's own."""
        wanted = Filter.parse(self.filter) if self.filter else None
        request = SearchRequest(
            query,
            k=self.k if k is None else k,
            mode=self.mode,
            filter=wanted,
            collection=self.collection,
            rerank=self.rerank,
        )
        found = self.searcher.search(request)
        return [Document(text_of(hit), id=hit.id, metadata=metadata_of(hit)) for hit in found.hits]


class PilotlightReranker(BaseDocumentCompressor):
    """Keeps the documents that answer best, best first, whatever retriever found them; raises what its ranker raises.

    Each gets its score, from 0 to 1, as `relevance_score` in its metadata.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    ranker: SkipValidation[Ranker]
    top_n: int | None = 4  # None keeps all

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the documents that answer a query best."""
        best = best_of(self.ranker, query, [document.page_content for document in documents], self.top_n)
        return [
            documents[place].model_copy(update={"metadata": {**documents[place].metadata, "relevance_score": score}})
            for place, score in best
        ]
