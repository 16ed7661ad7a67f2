"""Rankings of an index for judged queries: each document by its best passage, as the retriever that serves finds it.

Judgements name a document by its address, which every generation has in common; an anchor behind it does not matter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from indexer.generation.catalogue import document_id
from indexer.stores.store import Searchable
from rag.evaluation.dataset import Judgements
from rag.evaluation.measures import Run
from rag.query.request import Limits, SearchRequest
from rag.query.results import Hit
from rag.query.retriever import Retriever

DEPTH = 100  # documents that are ranked for a query


def by_document(judgements: Judgements) -> Judgements:
    """Return judgements of documents; of several for one document, that of the highest relevance."""
    found: Judgements = {}
    for query_id, judged in judgements.items():
        own = found.setdefault(query_id, {})
        for place, relevance in judged.items():
            own[address(place)] = max(relevance, own.get(address(place), relevance))
    return found


def deep_enough(limits: Limits) -> Limits:
    """Return limits by which `DEPTH` documents may be asked for."""
    return replace(limits, max_k=max(DEPTH, limits.max_k))


def search_index(retriever: Retriever, queries: Mapping[str, str], judgements: Judgements, **options: object) -> Run:
    """Return the best hundred documents of a generation for each query, by their addresses.

    Args:
        retriever: searches the generation; its limits are `deep_enough`.
        queries: texts by id.
        judgements: by document, see `by_document`.
        options: of `SearchRequest`.

    Raises QueryError, or RerankOff, as a search does.
    """
    run: Run = {}
    for query_id, text in queries.items():
        request = SearchRequest(text, k=DEPTH, per_document=1, **options)  # type: ignore[arg-type]
        run[query_id] = _ranked(retriever.search(request).hits, judgements[query_id])
    return run


def missing(generation: Searchable, judgements: Judgements) -> list[str]:
    """Return the documents that are judged relevant and that a generation does not have, in order."""
    return [place for place in relevant(judgements) if generation.facts_by_id(document_id(place)) is None]


def relevant(judgements: Judgements) -> list[str]:
    """Return the documents that are judged relevant, in order."""
    return sorted({place for judged in judgements.values() for place, relevance in judged.items() if relevance > 0})


def address(place: str) -> str:
    """Return the address of a document without the anchor of a passage."""
    return place.partition("#")[0]


def _ranked(hits: Iterable[Hit], judged: Mapping[str, int]) -> dict[str, float]:
    """Score documents by their rank; a judged one that was left out for another that says the same has its place."""
    ranked: dict[str, float] = {}
    for hit in hits:
        place = address(hit.url)
        if judged.get(place, 0) <= 0:
            place = next((each for each in map(address, hit.duplicates) if judged.get(each, 0) > 0), place)
        ranked.setdefault(place, 1 / hit.rank)
    return ranked
