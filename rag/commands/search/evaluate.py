"""`pilotlight eval`."""

from pathlib import Path

import click

from rag.commands.search.search import MODE
from rag.commands.verb import PATH, WHOLE, Result, verb
from rag.errors import InsightsError, SettingsError
from rag.insights.judgements import LEAST
from rag.settings import Settings


@verb(
    "index",
    "store",
    "embedder",
    "rerank",
    "build",
    without=("keep_generations", "vector_index", "ray"),
)
@click.argument("beir_dir", type=PATH, help="folder with corpus.jsonl, queries.jsonl and qrels/test.tsv")
@MODE
@click.option("--fusion", metavar="FUSION", help="how hybrid combines its two rankings: weighted (default) or rrf")
@click.option(
    "--from-insights",
    "is_made",
    is_flag=True,
    help="write this folder, from what people opened and judged in the live index, and measure nothing",
)
@click.option(
    "--least",
    metavar="N",
    type=WHOLE,
    default=LEAST,
    help=f"searches that must have led to a hit (default: {LEAST})",
)
@click.option("--rerank", is_flag=True, help="have the cross-encoder of rerank_model read the best candidates anew")
def evaluate(
    settings: Settings, *, beir_dir: Path, mode: str, fusion: str | None, rerank: bool, is_made: bool, least: int
) -> Result:
    """Measure retrieval quality on a BEIR folder, or make one of what people ask."""
    if is_made:
        return _make(settings, beir_dir, least)
    try:
        from rag.evaluation.evaluation import evaluate as run
    except ModuleNotFoundError as error:
        raise SettingsError("eval is not installed: pip install 'pilotlight[eval]'") from error
    from rag.commands.embedders import plans, prepare
    from rag.evaluation.dataset import read_dataset
    from rag.serving.live import load_embedder, load_reranker

    dataset = read_dataset(beir_dir)
    if rerank and not settings.rerank_model:
        raise SettingsError("--rerank needs a cross-encoder: set --rerank-model")
    plan, *others = plans(settings)
    for each in (plan, *others):
        prepare(each)
    embedder = load_embedder(settings)
    reranker, depth, tokens = (
        load_reranker(settings) if rerank else None,
        settings.rerank_depth,
        settings.tokens == "yes",
    )
    scores = run(dataset, embedder, mode=mode, fusion=fusion, tokens=tokens, reranker=reranker, depth=depth)
    scores |= {"precision": plan.precision, "engine": plan.engine}
    return scores, "\n".join(f"{name:>12}  {value}" for name, value in scores.items())


def _make(settings: Settings, folder: Path, least: int) -> Result:
    import sqlite3
    from contextlib import closing

    from rag.commands.published import published
    from rag.insights.judgements import judged_questions, write_dataset
    from rag.serving.store_access import chosen_store

    if least < 1:
        raise SettingsError(f"--least must be from 1, not {least}")
    try:
        judged = judged_questions(settings.insights_folder, settings.collection, least)
        if not settings.store:
            published(settings)  # says that there is no such collection
        with closing(chosen_store(settings)) as store, closing(store.open(store.live_id())) as generation:
            facts = {"collection": settings.collection, "generation": generation.id}
            made = write_dataset(folder, judged, generation.documents(), facts)
    except (sqlite3.Error, OSError) as error:
        raise InsightsError(f"what people ask cannot be made into a dataset: {error}") from error
    return made, "\n".join(f"{name:>12}  {value}" for name, value in made.items())
