"""The verbs `search`, `eval` and `compare`, which answer queries and measure how good the hits are."""

import dataclasses
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from indexer.errors import FilterError, IndexMissing, counted
from indexer.filter import Filter
from indexer.publish.publish import list_collections
from rag.commands import models
from rag.commands.cli import PATH, Result, verb
from rag.errors import DatasetError, InsightsError, SettingsError
from rag.insights.report import MAX_DAYS, judged_questions, report, write_dataset
from rag.query.request import DAYS, KEYS, LISTS, METADATA, MODES, SearchRequest, fields_of, key_of, names_of
from rag.settings import Settings, did_you_mean
from rag.stores import check_fingerprint

if TYPE_CHECKING:
    from embedder.engines.plan import Plan
    from embedder.text_embedder import Embedder
    from indexer.stores import Searchable
    from rag.evaluation.evaluation import Judgements, Run, Side
    from rag.query.model_queue import RerankQueue

_RERANK = click.option("--rerank", is_flag=True, help="rerank the best candidates with the cross-encoder rerank_model")


@verb("index", "store", "embedder", "rerank", "serve", without=("host", "port", "workers", "log_format"))
@click.argument("query", nargs=-1, required=True, help="the question; several words are one question")
@click.option("-k", metavar="K", type=int, default=10, help="hits to return (default: 10)")
@click.option(
    "--mode",
    metavar="MODE",
    type=click.Choice(MODES),
    default=MODES[0],
    help="how to search: hybrid (default), dense or lexical",
)
@click.option(
    "--filter",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="search only documents that match; KEY is source, url_prefix, path, language, content_type, version, from, "
    "to or meta.NAME; repeat a key to allow several values",
)
@_RERANK
@click.option("--explain", is_flag=True, help="explain the score of each hit")
def search(settings: Settings, *, query: Sequence[str], pairs: Sequence[str], **options: Any) -> Result:
    """Answer one query: all arguments, joined by spaces. `--json` prints the same JSON as the REST API returns."""
    request = SearchRequest(" ".join(query), filter=read_filter(pairs), collection=settings.collection, **options)
    settings = models.with_index_precision(settings)
    plans = [plan.queries for plan in models.plans(settings)]
    with models.verify_in_background(plans):
        from rag.query.results import as_text
        from rag.query.retriever import Retriever
        from rag.serving.follower import load_embedder

    generation = _open(settings)
    models.prepare(*plans)
    queue = _rerank_queue(settings)
    embedder, synonyms, close = load_embedder(settings), settings.synonyms, settings.close
    retriever = Retriever(generation, embedder, reranker=queue, synonyms=synonyms, close=close)
    retriever.warm()
    answer = retriever.answer_query(request).as_dict()
    return answer, as_text(answer)


def _open(settings: Settings) -> "Searchable":
    """Open the index for searches in the collections of the settings. Raises the errors of `published_store`."""
    names: Iterable[str] | None = names_of(settings.collection)
    if settings.store or names == [settings.collection]:
        return models.published_store(settings).open()
    from indexer.generation.generation import JointGeneration
    from indexer.stores import FolderStore

    names = names or list_collections(settings.index_dir) or [Settings().collection]
    folders = {name: models.published_folder(dataclasses.replace(settings, collection=name)) for name in names}
    generations = {name: FolderStore(folder).open() for name, folder in sorted(folders.items())}
    for generation in generations.values():
        check_fingerprint(generation.manifest, next(iter(generations.values())).manifest.fingerprint)
    return JointGeneration(generations)


def _rerank_queue(settings: Settings) -> "RerankQueue | None":
    from rag.query.model_queue import RerankQueue
    from rag.serving.follower import load_reranker

    model = load_reranker(settings)
    return RerankQueue(model) if model else None


def read_filter(pairs: Sequence[str]) -> Filter | None:
    """Parse KEY=VALUE texts, such as language=en, into a filter. Raises FilterError if one is invalid."""
    parameters: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise FilterError("--filter", f"must be KEY=VALUE, such as language=en, not {pair[:80]!r}")
        if name not in (*LISTS, *DAYS) and not name.startswith(METADATA):
            hint = did_you_mean(name, KEYS) or f"; its keys are {', '.join(KEYS)}"
            raise FilterError("--filter", f"has no key {name[:40]!r}{hint}")
        parameters.setdefault(name, []).append(value)
    try:
        return Filter.parse(fields_of(parameters)) if parameters else None
    except FilterError as error:
        raise FilterError(f"--filter {key_of(error.field)}", error.detail) from error


@verb("index", "store", "embedder", "rerank", "tokens")
@click.argument("beir_dir", type=PATH, help="folder with corpus.jsonl, queries.jsonl and qrels/test.tsv")
@click.option(
    "--mode",
    metavar="MODE",
    type=click.Choice(MODES),
    help="how to search: hybrid, dense or lexical (default: all, side by side)",
)
@click.option(
    "--from-insights",
    is_flag=True,
    help="write questions from opened and judged hits of the live index to this folder, measuring nothing",
)
@click.option(
    "--from-index",
    is_flag=True,
    help="write questions from headings, comments, links and references of the index to this folder, measuring nothing",
)
@_RERANK
def evaluate(
    settings: Settings, *, beir_dir: Path, from_insights: bool, from_index: bool, mode: str | None, rerank: bool
) -> Result:
    """Measure retrieval quality on a folder in BEIR's layout, or write such a folder from the index or its searches."""
    if from_insights or from_index:
        results = _write_dataset(settings, beir_dir, from_index=from_index)
    else:
        evaluation = _evaluation("eval")
        dataset = evaluation.read_dataset(beir_dir)
        if rerank and not settings.rerank_model:
            raise SettingsError("--rerank needs a cross-encoder: set --rerank-model")
        from rag.serving.follower import load_embedder, load_reranker

        plan, *rerank_plans = models.plans(settings)
        models.prepare(plan, plan.queries, *(rerank_plans if rerank else []))
        reranker, tokens = load_reranker(settings) if rerank else None, settings.keeps_tokens
        embedder = load_embedder(settings)
        if settings.query_precision == "auto" and not evaluation.knows_language(dataset, embedder):
            embedder = load_embedder(dataclasses.replace(settings, query_precision="same"))
        results = evaluation.evaluate(dataset, embedder, mode=mode, tokens=tokens, reranker=reranker)
        queries = embedder.plan.queries.precision
        results |= {"precision": plan.precision, "query_precision": queries, "engine": plan.engine}
        if not mode:
            return results, evaluation.modes_as_text(results)
    return results, "\n".join(f"{name:>15}  {value}" for name, value in results.items())


def _evaluation(verb: str) -> Any:
    try:
        return import_module("rag.evaluation.evaluation")
    except ModuleNotFoundError as error:
        raise SettingsError(f"{verb} is not installed: pip install 'pilotlight[eval]'") from error


def _write_dataset(settings: Settings, folder: Path, *, from_index: bool) -> dict[str, Any]:
    from indexer.generation.documents import Database
    from indexer.generation.manifest import DOCUMENTS, generation_folder
    from indexer.stores import FolderStore
    from rag.evaluation.questions import write_questions

    try:
        judged = [] if from_index else judged_questions(settings.insights_folder, settings.collection)
        with closing(models.published_store(settings)) as store, closing(store.open(store.live_id())) as generation:
            facts = {"collection": settings.collection, "generation": generation.manifest.id}
            if from_index:
                links: list[Any] = []
                if isinstance(store, FolderStore):
                    links = Database(generation_folder(store.folder, generation.manifest.id) / DOCUMENTS).link_texts()
                return write_questions(folder, generation.documents, facts, links)
            return write_dataset(folder, judged, generation.documents(), facts)
    except (sqlite3.Error, OSError) as error:
        raise InsightsError(f"the dataset cannot be written: {error}") from error


@verb("index", "store", "embedder", "rerank", "synonyms")
@click.argument(
    "a",
    required=False,
    help="live or the id of a generation, optionally with settings, such as live,mode=dense. With --documents, also a "
    "day, 30d (30 days ago) or a version of the manual; default: the generation before the live one",
)
@click.argument("b", required=False, help="the other generation or settings, in the same form")
@click.option(
    "--queries",
    type=PATH,
    metavar="DIR",
    help="BEIR folder with the questions and their answers; corpus-id is the address of a document",
)
@click.option("--documents", is_flag=True, help="show sections that differ; --queries adds questions whose hits differ")
@click.option(
    "--asked", "adds_asked", is_flag=True, help="with --documents, also show frequent questions whose first hits differ"
)
def compare(
    settings: Settings, *, a: str | None, b: str | None, queries: Path | None, documents: bool, adds_asked: bool
) -> Result:
    """Compare how well two builds of the index or two settings answer queries, or list the sections that differ."""
    if documents:
        return _compare_documents(settings, a, b, queries, adds_asked=adds_asked)
    if a is None or b is None or queries is None:
        raise SettingsError("compare needs A, B and --queries DIR; or --documents, to show the sections that differ")
    evaluation = _evaluation("compare")
    sides = [evaluation.read_side(text, settings, name) for name, text in (("A", a), ("B", b))]
    texts, judgements = evaluation.read_questions(queries)
    judgements = evaluation.by_document(judgements)
    (first, run_a), (second, run_b) = _search_index(settings, sides, texts, judgements)
    comparison = {"a": first, "b": second, **evaluation.compare(texts, judgements, run_a, run_b)}
    return comparison, evaluation.as_text(comparison)


def _compare_documents(
    settings: Settings, since: str | None, until: str | None, queries: Path | None, *, adds_asked: bool
) -> Result:
    from rag.changes.questions import find_changed_answers
    from rag.changes.snapshots import changes_as_text, find_changes

    folder = models.published_folder(settings)
    changes = find_changes(folder, settings.collection, since, until)
    result, text = msgspec.to_builtins(changes), changes_as_text(changes)
    questions: list[str] = []
    if adds_asked:
        questions += [question for question, _ in report(settings.insights_folder, MAX_DAYS, settings.collection).asked]
    if queries is not None:
        questions += _evaluation("compare --queries").read_questions(queries)[0].values()
    if questions:
        if changes.since.version is not None:
            raise SettingsError("--queries and --asked compare generations, not versions")
        from rag.query.retriever import Retriever

        _, embedder = _load_embedder(settings)
        store = models.published_store(settings)
        with closing(store.open(changes.since.generation)) as old, closing(store.open(changes.until.generation)) as new:
            retrievers = [Retriever(each, embedder, synonyms=settings.synonyms) for each in (old, new)]
            answers = find_changed_answers(dict.fromkeys(questions), changes, *retrievers)
        result["questions"] = msgspec.to_builtins(answers)
        text = "\n".join(
            [text, *(each.line() for each in answers), f"{counted(len(answers), 'question')} answered differently"]
        )
    return result, text


def _load_embedder(settings: Settings) -> "tuple[Plan, Embedder]":
    """Load the embedder with the precision of the index. Returns the plan of the embedder, and the embedder."""
    from rag.serving.follower import load_embedder

    settings = models.with_index_precision(settings)
    plan, *_ = models.plans(settings)
    models.prepare(plan.queries)
    return plan, load_embedder(settings)


def _search_index(
    settings: Settings, sides: "Sequence[Side]", texts: dict[str, str], judgements: "Judgements"
) -> "list[tuple[dict[str, Any], Run]]":
    from rag.evaluation.evaluation import LIVE, missing_documents, relevant_documents, search_index
    from rag.query.retriever import Retriever

    store = models.published_store(settings)
    plan, embedder = _load_embedder(settings)
    searched = []
    with closing(store):
        live, ids = store.live_id(), [each.id for each in store.published()]
        sides = [dataclasses.replace(one, generation=live) if one.generation == LIVE else one for one in sides]
        for name in (side.generation for side in sides):
            if name not in ids:
                raise IndexMissing(f"there is no generation {name} in {store.name}; there are: {', '.join(ids)}")
        if len({dataclasses.replace(side, text="") for side in sides}) == 1:
            raise SettingsError(f"{sides[0].text} and {sides[1].text} are the same: nothing to compare")
        for side in sides:
            queue = _rerank_queue(side.settings) if side.rerank else None
            with closing(store.open(side.generation)) as generation:
                retriever = Retriever(generation, embedder, reranker=queue, synonyms=side.settings.synonyms)
                run = search_index(retriever, texts, judgements, side)
                facts = {
                    "side": side.text,
                    "generation": generation.manifest.id,
                    "documents": generation.manifest.counts.documents,
                    "model": settings.model,
                    "precision": plan.precision,
                    "query_precision": plan.queries.precision,
                    "mode": side.mode,
                    "missing": len(missing_documents(retriever, judgements)),
                }
            searched.append((facts, run))
    documents = relevant_documents(judgements)
    if all(facts["missing"] == len(documents) for facts, _ in searched):
        raise DatasetError(
            f"no document judged relevant in qrels/test.tsv (for example {(documents or ['none'])[0]}) is in either "
            "generation: each corpus-id must be the url that search hits show"
        )
    return searched
