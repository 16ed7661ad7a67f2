"""Pilotlight as a retriever of LlamaIndex; needs the extra `pilotlight[llamaindex]`."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from rag.query.filters import Filter
from rag.query.options import DEFAULT_COLLECTION, MODES
from rag.query.passages import Searcher, metadata_of, text_of
from rag.query.request import SearchRequest

SHOWN = ("title", "section", "date")  # what a model is told of a passage beside its text


class PilotlightRetriever(BaseRetriever):
    """Finds passages for a query engine; raises what its searcher raises."""

    def __init__(
        self,
        searcher: Searcher,
        *,
        k: int = 4,
        mode: str = MODES[0],
        filter: Mapping[str, Any] | None = None,
        collection: str = DEFAULT_COLLECTION,
    ) -> None:
        """`filter` is as in the REST API. Raises FilterError."""
        super().__init__()
        self._searcher = searcher
        wanted = Filter.parse(filter) if filter else None
        self._asked = SearchRequest("", k=k, mode=mode, filter=wanted, collection=collection)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._searcher.search(replace(self._asked, query=query_bundle.query_str))
        nodes = []
        for hit in found.hits:
            metadata = metadata_of(hit)
            hidden = [name for name in metadata if name not in SHOWN]
            node = TextNode(id_=hit.id, text=text_of(hit), metadata=metadata, excluded_llm_metadata_keys=hidden)
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
