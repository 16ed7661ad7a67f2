"""`pilotlight eval`."""

from pathlib import Path

import click

from rag.commands.search.search import MODE
from rag.commands.verb import PATH, Result, verb
from rag.errors import SettingsError
from rag.settings import Settings


@verb("embedder", "build", without=("keep_generations", "vector_index", "ray"))
@click.argument("beir_dir", type=PATH, help="folder with corpus.jsonl, queries.jsonl and qrels/test.tsv")
@MODE
@click.option("--fusion", metavar="FUSION", help="how hybrid combines its two rankings: weighted (default) or rrf")
def evaluate(settings: Settings, *, beir_dir: Path, mode: str, fusion: str | None) -> Result:
    """Measure retrieval quality on a BEIR folder."""
    try:
        from rag.commands.search.evaluation import evaluate as run
        from rag.commands.search.evaluation import read_dataset
    except ModuleNotFoundError as error:
        raise SettingsError("eval is not installed: pip install 'pilotlight[eval]'") from error
    from embedder.engines.plan import Plan
    from rag.commands.embedders import prepare
    from rag.serving.live import load_embedder

    dataset = read_dataset(beir_dir)
    plan = Plan(settings.embedder_config())
    prepare(plan)
    embedder = load_embedder(settings)
    scores = run(dataset, embedder, mode=mode, fusion=fusion, tokens=settings.tokens == "yes")
    scores |= {"precision": plan.precision, "engine": plan.engine}
    return scores, "\n".join(f"{name:>12}  {value}" for name, value in scores.items())
