"""Pilotlight as a retriever and as a reranker of LlamaIndex; needs the extra `pilotlight[llamaindex]`."""

import asyncio
from collections.abc import Mapping
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from msgspec import structs

from rag.adapters.passages import Ranker, Searcher, best_of, metadata_of
from rag.query.request import DEFAULT_COLLECTION, Filter, Mode, SearchRequest
from rag.query.results import text_of

SHOWN = ("title", "section", "date")  # what a model is told of a passage beside its text


class PilotlightRetriever(BaseRetriever):
    """Finds passages for a query engine; raises what its searcher raises."""

    def __init__(
        self,
        searcher: Searcher,
        *,
        k: int = 4,
        mode: Mode = "hybrid",
        filter: Mapping[str, Any] | None = None,
        collection: str = DEFAULT_COLLECTION,
        rerank: bool = False,
    ) -> None:
        """`filter` is as in the REST API. Raises FilterError."""
        super().__init__()
        self._searcher = searcher
        wanted = Filter.parse(filter) if filter else None
        self._asked = SearchRequest("", k=k, mode=mode, filter=wanted, collection=collection, rerank=rerank)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._searcher.search(structs.replace(self._asked, query=query_bundle.query_str))
        nodes = []
        for hit in found.hits:
            metadata = metadata_of(hit)
            hidden = [name for name in metadata if name not in SHOWN]
            node = TextNode(id_=hit.id, text=text_of(hit), metadata=metadata, excluded_llm_metadata_keys=hidden)
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class PilotlightReranker(BaseNodePostprocessor):
    """Keeps the nodes that answer best, best first, whatever retriever found them; raises what its ranker raises."""

    top_n: int | None = 4  # None keeps all
    _ranker: Ranker = PrivateAttr()

    def __init__(self, ranker: Ranker, *, top_n: int | None = 4, **more: Any) -> None:
        """`more` is for the base class."""
        super().__init__(**{"top_n": top_n, **more})
        self._ranker = ranker

    @classmethod
    def class_name(cls) -> str:
        """Name of the class, for what LlamaIndex saves."""
        return "PilotlightReranker"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise ValueError("a query is needed to rank by")
        texts = [node.node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
        best = best_of(self._ranker, query_bundle.query_str, texts, self.top_n)
        return [NodeWithScore(node=nodes[place].node, score=score) for place, score in best]
