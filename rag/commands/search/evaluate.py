"""`pilotlight eval`."""

from pathlib import Path

import click

from rag.commands.search.search import MODE
from rag.commands.verb import PATH, Result, verb
from rag.errors import SettingsError
from rag.settings import Settings


@verb("embedder", "rerank", "build", without=("keep_generations", "vector_index", "ray"))
@click.argument("beir_dir", type=PATH, help="folder with corpus.jsonl, queries.jsonl and qrels/test.tsv")
@MODE
@click.option("--fusion", metavar="FUSION", help="how hybrid combines its two rankings: weighted (default) or rrf")
@click.option("--rerank", is_flag=True, help="have the cross-encoder of rerank_model read the best candidates anew")
def evaluate(settings: Settings, *, beir_dir: Path, mode: str, fusion: str | None, rerank: bool) -> Result:
    """Measure retrieval quality on a BEIR folder."""
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
