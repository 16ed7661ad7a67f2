"""Pilotlight as a retriever of LangChain."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, SkipValidation

from rag.query.filters import Filter
from rag.query.options import DEFAULT_COLLECTION, MODES
from rag.query.passages import Searcher, metadata_of, text_of
from rag.query.request import SearchRequest


class PilotlightRetriever(BaseRetriever):
    """Finds passages for a chain; raises what its searcher raises."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    searcher: SkipValidation[Searcher]
    k: int = 4
    mode: str = MODES[0]
    filter: dict[str, Any] | None = None  # as in the REST API
    collection: str = DEFAULT_COLLECTION

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        wanted = Filter.parse(self.filter) if self.filter else None
        request = SearchRequest(query, k=self.k, mode=self.mode, filter=wanted, collection=self.collection)
        found = self.searcher.search(request)
        return [Document(text_of(hit), id=hit.id, metadata=metadata_of(hit)) for hit in found.hits]
