"""Two sides compared on judged queries: two generations of an index, or settings over the documents of a dataset.

A side is written as `live`, `20261124T120000-0a1b2c`, `live,boost=source=wiki*1.2`, `model=/models/e5,precision=int8`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import permutation_test

from indexer.generation.documents import document_id
from indexer.generation.manifest import is_generation_id
from rag.errors import SettingsError
from rag.evaluation.evaluation import NDCG, Judgements, Run, measure
from rag.query.request import MODES, Mode, SearchRequest
from rag.query.retriever import Retriever
from rag.settings import BY_NAME, SETTINGS, Settings, read_value

LIVE = "live"
DEPTH = 100  # documents that are ranked for a query
_RESAMPLES = 9_999  # of the test; up to 13 queries, every choice of signs is looked at
_SEED = 0  # the same rankings give the same p
_SHOWN = 10  # queries that became better, and that became worse
_WIDEST = 60  # characters of a query
_NEXT = re.compile(r",(?=[a-z_]+=)")  # any other comma belongs to a value
_OPTIONS: dict[str, tuple[type, tuple[str, ...]]] = {"mode": (str, MODES), "rerank": (bool, ())}
_MODEL = tuple(setting.name for setting in SETTINGS if setting.group in ("embedder", "rerank"))
_OF_INDEX = ("mode", "rerank", "boost", "synonyms", "rerank_model")
_OF_CORPUS = ("mode", "rerank", "tokens", *_MODEL)


@dataclass(frozen=True, slots=True)
class Side:
    """What is searched, and how."""

    text: str  # as it was written
    generation: str  # its id, or `LIVE`; empty: the documents of the dataset are searched
    settings: Settings
    mode: Mode = "hybrid"
    rerank: bool = False


def read_side(text: str, settings: Settings, name: str) -> Side:
    """Read the side of a name, such as A. Raises SettingsError saying what it can be."""
    first, *rest = _NEXT.split(text)
    is_index = first == LIVE or is_generation_id(first)
    allowed = _OF_INDEX if is_index else _OF_CORPUS
    values: dict[str, Any] = {}
    for pair in rest if is_index else [first, *rest]:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError(f"{name} is {LIVE}, the id of a generation, or NAME=VALUE,…; not {text[:80]!r}")
        if key not in allowed:
            raise SettingsError(f"{name} cannot have {key[:40]!r}; it can have {', '.join(allowed)}")
        where = f"{key} in {name}"
        values[key] = read_value(value, where, *_OPTIONS[key]) if key in _OPTIONS else BY_NAME[key].read(value, where)
    options = {key: values.pop(key) for key in _OPTIONS if key in values}
    side = Side(text, first if is_index else "", replace(settings, **values), **options)
    if side.rerank and not side.settings.rerank_model:
        raise SettingsError(f"rerank in {name} needs a cross-encoder: set --rerank-model")
    return side


def by_document(judgements: Judgements) -> Judgements:
    """Return judgements of documents, whose addresses have no anchor; the highest relevance of several counts."""
    found: Judgements = {}
    for query_id, judged in judgements.items():
        documents = found.setdefault(query_id, {})
        for url, relevance in judged.items():
            documents[_page(url)] = max(relevance, documents.get(_page(url), relevance))
    return found


def search_index(retriever: Retriever, queries: Mapping[str, str], judgements: Judgements, side: Side) -> Run:
    """Return the best hundred documents of a generation for each query, by their addresses.

    A judged document that was left out of the hits, for another that says the same, has the place of that one.
    """
    run: Run = {}
    for query_id, text in queries.items():
        ranked = run.setdefault(query_id, {})
        relevant = {url for url, relevance in judgements[query_id].items() if relevance > 0}
        request = SearchRequest(text, k=DEPTH, per_document=1, mode=side.mode, rerank=side.rerank)
        for hit in retriever.answer_query(request).hits:
            urls = [_page(url) for url in (hit.url, *hit.duplicates)]
            ranked.setdefault(next((url for url in urls if url in relevant), urls[0]), 1 / hit.rank)
    return run


def missing(retriever: Retriever, judgements: Judgements) -> list[str]:
    """Return the documents that are judged relevant and that a generation does not have, in order."""
    documents = retriever.generation.documents
    return [url for url in relevant(judgements) if next(documents(id=document_id(url)), None) is None]


def relevant(judgements: Judgements) -> list[str]:
    """Return the documents that are judged relevant, in order."""
    return sorted({url for judged in judgements.values() for url, relevance in judged.items() if relevance > 0})


def compare(queries: Mapping[str, str], judgements: Judgements, a: Run, b: Run) -> dict[str, Any]:
    """Compare two runs over the same judged queries: JSON-ready, the query that B lost most by first."""
    first, second = (measure(judgements, queries, run) for run in (a, b))
    measures = {}
    for name in first:
        differences = second[name] - first[name]
        means = {"a": first[name].mean(), "b": second[name].mean(), "difference": differences.mean()}
        counts = {"better": differences > 0, "worse": differences < 0, "same": differences == 0}
        measures[name] = {
            **{key: round(float(value), 4) for key, value in means.items()},
            "p": round(p_value(differences), 4),
            **{key: int(np.count_nonzero(which)) for key, which in counts.items()},
        }
    changes = [
        {
            "id": query_id,
            "query": text,
            "difference": round(float(second[NDCG][place] - first[NDCG][place]), 4),
            "a": {name: round(float(values[place]), 4) for name, values in first.items()},
            "b": {name: round(float(values[place]), 4) for name, values in second.items()},
            "relevant": _ranks(judgements[query_id], a.get(query_id, {}), b.get(query_id, {})),
        }
        for place, (query_id, text) in enumerate(queries.items())
    ]
    changes.sort(key=lambda change: change["difference"])  # type: ignore[arg-type, return-value]
    return {"queries": len(queries), "measures": measures, "by_query": changes}


def p_value(differences: npt.NDArray[np.float64]) -> float:
    """Return how often chance alone would make the mean of paired differences (n,) as large, on either side.

    Fisher's randomisation test (Smucker, Allan and Carterette, "A comparison of statistical significance tests for
    information retrieval evaluation", CIKM 2007).
    """
    if len(differences) < 2 or not differences.any():
        return 1.0
    tested = permutation_test(
        (differences,),
        lambda sample, axis: sample.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=1_000,  # bounds the memory
        rng=np.random.default_rng(_SEED),
    )
    return float(tested.pvalue)


def as_text(found: dict[str, Any]) -> str:
    """Lay out a comparison, with what its sides "a" and "b" are, for a terminal."""
    lines, missing = [], []
    for name in ("a", "b"):
        side = found[name]
        facts = [side["generation"]] if side.get("generation", side["side"]) != side["side"] else []
        facts += [f"{side['documents']:,} documents", f"{side['model']} ({side['precision']})", side["mode"]]
        lines.append(f"{name.upper()}  {side['side']}: {', '.join(facts)}")
        if absent := side.get("missing"):
            missing.append(f"{name.upper()} does not have {absent:,} of the documents that are judged relevant")
    lines += missing
    lines += ["", f"{'':<12}{'A':>8}{'B':>8}{'B - A':>9}{'p':>9}{'better':>8}{'worse':>7}{'same':>7}"]
    lines += [
        f"{name:<12}{one['a']:>8.4f}{one['b']:>8.4f}{one['difference']:>+9.4f}{one['p']:>9.4f}"
        f"{one['better']:>8,}{one['worse']:>7,}{one['same']:>7,}"
        for name, one in found["measures"].items()
    ]
    queries = found["by_query"]
    lines += _changes("worse in B", [query for query in queries if query["difference"] < 0])
    lines += _changes("better in B", [query for query in reversed(queries) if query["difference"] > 0])
    return "\n".join(lines)


def _changes(title: str, queries: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not queries:
        return
    more = f", the {_SHOWN} most of {len(queries):,}" if len(queries) > _SHOWN else ""
    yield from ("", f"{title}{more}")
    for query in queries[:_SHOWN]:
        text = " ".join(query["query"].split())
        yield f"  {query['difference']:+.4f}  {text[:_WIDEST]}{'…' if len(text) > _WIDEST else ''}"
        moved = [one for one in query["relevant"] if one["a"] != one["b"]] or query["relevant"]
        ranks = (f"{one['id']} {one['a'] or 'not found'} → {one['b'] or 'not found'}" for one in moved[:3])
        yield f"           {'; '.join(ranks)}"


def _ranks(judged: Mapping[str, int], a: Mapping[str, float], b: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the relevant documents with the rank that each run gives them, from 1, or None."""
    ranks = [{id: rank for rank, id in enumerate(sorted(run, key=lambda id: -run[id]), start=1)} for run in (a, b)]
    documents = sorted((-relevance, id) for id, relevance in judged.items() if relevance > 0)
    return [{"id": id, "relevance": -less, "a": ranks[0].get(id), "b": ranks[1].get(id)} for less, id in documents]


def _page(url: str) -> str:
    return url.partition("#")[0]
