"""A LangChain retriever that searches with Pilotlight."""

from typing import Any, Protocol

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, SkipValidation

from rag.query.request import DEFAULT_COLLECTION, Filter, Mode, SearchRequest
from rag.query.results import Answer, text_of

METADATA_FIELDS = ("title", "section", "document", "score", "language", "date", "content_type")


class Searcher(Protocol):
    """An object that can search, such as `rag.Client` or, in the same process, `rag.serving.live.LiveRetriever`."""

    def search(self, query: SearchRequest) -> Answer:
        """Return the passages that answer a query best."""


class PilotlightRetriever(BaseRetriever):
    """A LangChain retriever. It raises the errors of its `searcher`.

    The metadata of each result has the address of the hit as `source`, because chains cite this field. `source` and the
    fields in `METADATA_FIELDS` override document metadata with the same names.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    searcher: SkipValidation[Searcher]
    k: int = 4
    mode: Mode = "hybrid"
    filter: dict[str, Any] | None = None
    collection: str = DEFAULT_COLLECTION
    collections: list[str] | str | None = None  # overrides `collection`; "*" for all collections
    rerank: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        """Return the passages that answer a query. `k` overrides the default number of passages."""
        filter = Filter.parse(self.filter) if self.filter else None
        limit = self.k if k is None else k
        options = {name: getattr(self, name) for name in ("mode", "collection", "collections", "rerank")}
        request = SearchRequest(query, k=limit, filter=filter, **options)
        documents = []
        for hit in self.searcher.search(request).hits:
            facts = {name: value for name in METADATA_FIELDS if (value := getattr(hit, name)) is not None}
            documents.append(Document(text_of(hit), id=hit.id, metadata={**hit.metadata, "source": hit.url, **facts}))
        return documents
