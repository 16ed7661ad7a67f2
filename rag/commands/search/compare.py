"""`pilotlight compare`."""

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rag.commands.verb import PATH, Result, verb
from rag.errors import DatasetError, SettingsError
from rag.settings import Settings

if TYPE_CHECKING:
    from embedder.engines.plan import Plan
    from indexer.stores.store import Searchable
    from rag.evaluation.dataset import Judgements
    from rag.evaluation.measures import Run
    from rag.evaluation.side import Side

Facts = dict[str, Any]


@verb("index", "store", "embedder", "rerank", "tokens", "boost", "synonyms")
@click.argument("a", help="live, the id of a generation, or NAME=VALUE,… of settings; after a generation too")
@click.argument("b", help="what is compared with it, written likewise")
@click.option(
    "--queries",
    type=PATH,
    required=True,
    metavar="DIR",
    help="BEIR folder with the questions and their answers; of an index, corpus-id is the address of a document",
)
@click.option("--report", type=PATH, metavar="FILE", help="also write an HTML page with the plot and every query")
def compare(settings: Settings, *, a: str, b: str, queries: Path, report: Path | None) -> Result:
    """Say which of two generations, models or settings answers judged queries better, and which queries."""
    try:
        from rag.evaluation import comparison
    except ModuleNotFoundError as error:
        raise SettingsError("compare is not installed: pip install 'pilotlight[eval]'") from error
    from rag.evaluation.comparison_text import as_text
    from rag.evaluation.dataset import read_questions
    from rag.evaluation.index_search import by_document
    from rag.evaluation.side import LIVE, read_side

    sides = [read_side(text, settings, name) for name, text in (("A", a), ("B", b))]
    if bool(sides[0].generation) != bool(sides[1].generation):
        raise SettingsError(
            f"{a} and {b} do not search the same: one is a generation, the other the documents of {queries}; "
            f"compare two generations, or settings of one, such as {LIVE} and {LIVE},mode=dense"
        )
    texts, judgements = read_questions(queries)
    if sides[0].generation:
        judgements = by_document(judgements)
        searched = _search_index(settings, sides, texts, judgements)
    else:
        searched = [_search_corpus(side, queries) for side in sides]
    (first, run_a), (second, run_b) = searched
    compared = comparison.compare(texts, judgements, run_a, run_b)
    found = {"a": first, "b": second, **compared.as_dict()}
    if report:
        from rag.evaluation.comparison_page import write_page

        write_page(report, found)
        found["report"] = str(report)
    return found, as_text(found)


def _search_index(
    settings: Settings, sides: "list[Side]", texts: dict[str, str], judgements: "Judgements"
) -> "list[tuple[Facts, Run]]":
    from indexer.errors import IndexMissing
    from rag.commands.embedders import as_built
    from rag.commands.published import published
    from rag.evaluation.index_search import missing, relevant
    from rag.evaluation.side import LIVE
    from rag.serving.store_access import chosen_store

    if not settings.store:
        published(settings)  # says that there is no such collection
    searched = []
    with closing(chosen_store(settings)) as store:
        live, there = store.live_id(), store.ids()
        ids = [live if side.generation == LIVE else side.generation for side in sides]
        for name in ids:
            if name not in there:
                raise IndexMissing(f"there is no generation {name} in {store.name}; there are: {', '.join(there)}")
        if len({dataclasses.replace(s, text="", generation=name) for s, name in zip(sides, ids, strict=True)}) == 1:
            raise SettingsError(f"{sides[0].text} and {sides[1].text} are the same: nothing to compare")
        for side, name in zip(sides, ids, strict=True):
            with closing(store.open(name)) as generation:
                side = dataclasses.replace(side, settings=as_built(side.settings))
                searched.append(_search_generation(side, generation, texts, judgements))
                searched[-1][0]["missing"] = len(missing(generation, judgements))
    wanted = relevant(judgements)
    if all(facts["missing"] == len(wanted) for facts, _ in searched):
        example = f", such as {wanted[0]}" if wanted else ""
        raise DatasetError(
            f"neither generation has a document that is judged relevant{example}: corpus-id in qrels/test.tsv must be "
            "the address of a document, as hits have it"
        )
    return searched


def _search_generation(
    side: "Side", generation: "Searchable", texts: dict[str, str], judgements: "Judgements"
) -> "tuple[Facts, Run]":
    from rag.evaluation.index_search import deep_enough, search_index
    from rag.query.request import Limits
    from rag.query.retriever import Retriever
    from rag.rerank_queue import RerankQueue
    from rag.serving.live import load_embedder, load_reranker

    plan = _prepare(side, side.settings)
    reader = load_reranker(side.settings) if side.rerank else None
    retriever = Retriever(
        generation,
        load_embedder(side.settings),
        reranker=RerankQueue(reader) if reader else None,
        limits=deep_enough(Limits.of(side.settings)),
    )
    run = search_index(retriever, texts, judgements, mode=side.mode, rerank=side.rerank)
    facts = {
        "side": side.text,
        "generation": generation.id,
        "created_at": generation.manifest.created_at,
        "documents": generation.document_count,
        "chunks": generation.chunk_count,
        "model": side.settings.model,
        "precision": plan.precision,
        "mode": side.mode,
    }
    return facts, run


def _search_corpus(side: "Side", folder: Path) -> "tuple[Facts, Run]":
    from rag.evaluation.dataset import read_dataset
    from rag.evaluation.evaluation import search_corpus
    from rag.serving.live import load_embedder, load_reranker

    dataset, settings = read_dataset(folder), side.settings
    plan = _prepare(side, settings)
    run = search_corpus(
        dataset,
        load_embedder(settings),
        mode=side.mode,
        fusion=side.fusion,
        tokens=settings.tokens == "yes",
        reranker=load_reranker(settings) if side.rerank else None,
        depth=settings.rerank_depth,
    )
    facts = {
        "side": side.text,
        "documents": len(dataset.corpus),
        "model": settings.model,
        "precision": plan.precision,
        "engine": plan.engine,
        "mode": side.mode,
    }
    return facts, run


def _prepare(side: "Side", settings: Settings) -> "Plan":
    """Build what is missing of the models that a side needs; return the plan of its embedder."""
    from rag.commands.embedders import plans, prepare

    plan, *others = plans(settings)
    for each in (plan, *(others if side.rerank else [])):
        prepare(each)
    return plan
