"""Measure retrieval quality on a dataset, and compare two builds of an index or two settings on judged queries.

The searches use the same code as a server. The measures are computed by ir-measures, as trec_eval defines them.
"""

import csv
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ir_measures
import msgspec
import numpy as np
import numpy.typing as npt
from ir_measures import RR, R, nDCG
from scipy.stats import permutation_test

from embedder.late_interaction import QueryTokens
from embedder.text_embedder import CrossEncoder, Embedder, encode_documents
from indexer.generation.documents import document_id
from indexer.generation.languages import SAMPLE_PASSAGES, measure_languages, unknown_languages
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.manifest import is_generation_id
from indexer.generation.rows import Rows, ScoredRows, Scores, why_no_tokens
from indexer.read.extraction import detect_language
from rag.errors import DatasetError, SettingsError
from rag.query.ranking import MAX_QUERY_TOKENS, Ranking, fuse, rerank
from rag.query.request import MODES, RERANKED, Mode, SearchRequest
from rag.query.retriever import CANDIDATES, Retriever, shorten
from rag.query.weighting import CollectionFacts, QueryFacts, measure_unrelated, share_of_code
from rag.settings import BY_NAME, Settings, read_value

Judgements = dict[str, dict[str, int]]  # query id → document id → relevance
Run = dict[str, dict[str, float]]  # query id → document id → score, higher is better
Figure = npt.NDArray[np.float64]  # (n,): the value of one measure for each of n queries
Figures = dict[str, Figure]  # measure → values

NDCG = "ndcg@10"
MEASURES = {nDCG @ 10: NDCG, RR @ 10: "mrr@10", R @ 100: "recall@100"}

T = TypeVar("T")

LIVE = "live"
_MAX_RANKED_DOCUMENTS = 100
_RESAMPLES = 9_999
_SEED = 0
_MAX_SHOWN_QUERIES = 10
_MAX_SHOWN_CHARS = 60
_NEXT_OPTION = re.compile(r",(?=[a-z_]+=)")
_OPTIONS: dict[str, tuple[type, tuple[str, ...]]] = {"mode": (str, MODES), "rerank": (bool, ())}
_SIDE_OPTIONS = (*_OPTIONS, "synonyms", "rerank_model")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A BEIR test split. `corpus` and `queries` map ids to texts. The text of a document begins with its title."""

    corpus: dict[str, str]
    queries: dict[str, str]
    judgements: Judgements


class _Row(msgspec.Struct):
    id: str = msgspec.field(name="_id")
    text: str
    title: str | None = None


def read_dataset(folder: Path) -> Dataset:
    """Read corpus.jsonl, queries.jsonl and qrels/test.tsv. Raises DatasetError, which names the file and line."""
    corpus = {row.id: f"{row.title or ''} {row.text}".strip() for row in _json_lines(folder / "corpus.jsonl")}
    queries, judgements = read_questions(folder)
    if not corpus:
        raise DatasetError(f"{folder} has no documents: is it in BEIR's layout?")
    return Dataset(corpus, queries, judgements)


def read_questions(folder: Path) -> tuple[dict[str, str], Judgements]:
    """Read the judged queries and their judgements from a BEIR folder. Raises DatasetError if a file is invalid."""
    judgements: Judgements = {}
    path = folder / "qrels" / "test.tsv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    except (OSError, KeyError, ValueError, TypeError, csv.Error) as error:
        raise DatasetError(
            f"{path} cannot be read ({error}): it needs query-id, corpus-id and score columns"
        ) from error
    queries = {row.id: row.text for row in _json_lines(folder / "queries.jsonl") if row.id in judgements}
    if not queries:
        raise DatasetError(f"{folder} has no judged queries: is it in BEIR's layout?")
    return queries, judgements


def _json_lines(path: Path) -> Iterator[_Row]:
    decoder, number = msgspec.json.Decoder(_Row), 0
    try:
        with path.open("rb") as file:
            for line in file:
                number += 1
                yield decoder.decode(line)
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror or error}; is the folder in BEIR's layout?") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise DatasetError(f"{path} line {number} is not JSON with _id and text, as in BEIR: {error}") from error


def evaluate(
    dataset: Dataset,
    embedder: Embedder,
    *,
    mode: Mode | None = "hybrid",
    tokens: bool | None = None,
    reranker: CrossEncoder | None = None,
) -> dict[str, Any]:
    """Search for the judged queries with the same code as a server, and measure the results.

    Args:
        dataset: documents, queries and judgements.
        embedder: model that makes the vectors. Every vector is compared, so no approximate index affects the results.
        mode: search mode; None to search in every mode, but embed the documents only once.
        tokens: whether to index and compare token vectors; None to decide as a build of this corpus would.
        reranker: model that reranks the best candidates, or None.

    Returns:
        The mean of each measure by name, the number of queries, and the options of the search. If `mode` is None, these
        are the means for hybrid search. In addition, `modes` lists the means for every mode, and `worst` lists the
        queries with the largest losses of hybrid search (see `find_losses`).
    """
    texts, queries = list(dataset.corpus.values()), dataset.queries
    if tokens is None:
        broken = embedder.count_broken(_sample(texts))
        tokens = not why_no_tokens(len(texts), broken, is_multilingual=embedder.is_multilingual)
    sides: list[tuple[Mode, bool]] = (
        [(mode, tokens)] if mode else [(each, False) for each in ("dense", "lexical", "hybrid")]
    )
    if not mode and tokens:
        sides.append(("hybrid", True))
    runs: list[Run] = [{} for _ in sides]
    for query_id, candidates in search_corpus(dataset, embedder, mode, tokens=tokens):
        for (side, with_tokens), run in zip(sides, runs, strict=True):
            ranking = candidates.rank(side, tokens=with_tokens)
            if reranker:
                best = np.arange(min(RERANKED, len(ranking.rows)))
                logits = reranker.logits(reranker.pairs(queries[query_id], [texts[row] for row in ranking.rows[best]]))
                ranking = rerank(ranking, best, logits, reranker.to_scores(logits))
            scored = zip(ranking.rows[:CANDIDATES], ranking.scores[:CANDIDATES], strict=True)
            run[query_id] = {candidates.document_ids[row]: float(score) for row, score in scored}
    figures = [measure(dataset.judgements, queries, run) for run in runs]
    results: list[dict[str, Any]] = []
    for (side, with_tokens), measured in zip(sides, figures, strict=True):
        means = {name: round(float(values.mean()), 4) for name, values in measured.items()}
        token_facts = {"tokens": with_tokens} if side != "lexical" else {}
        results.append({**means, "queries": len(queries), "mode": side, **token_facts})
    result = results[-1] | ({"reranker": reranker.name} if reranker else {})
    if mode:
        return result
    worst = find_losses(queries, *(figures[index][NDCG] for index in (0, 1, -1)))
    return result | {"modes": results, "worst": worst}


def find_losses(queries: Mapping[str, str], dense: Figure, lexical: Figure, hybrid: Figure) -> list[dict[str, Any]]:
    """Return the queries for which hybrid search has a lower nDCG@10 than dense or lexical search, worst first."""
    losses = hybrid - np.maximum(dense, lexical)
    indices = [index for index in np.argsort(losses, kind="stable")[:_MAX_SHOWN_QUERIES].tolist() if losses[index] < 0]
    ids, columns = list(queries), {"difference": losses, "dense": dense, "lexical": lexical, "hybrid": hybrid}
    return [{"id": ids[index], "query": queries[ids[index]], **_figures_of(columns, index)} for index in indices]


def _figures_of(columns: Figures, index: int) -> dict[str, float]:
    return {name: round(float(values[index]), 4) for name, values in columns.items()}


def knows_language(dataset: Dataset, embedder: Embedder) -> bool:
    """Return whether the tokenizer of a model knows the languages of the documents."""
    texts = list(dataset.corpus.values())
    return not unknown_languages(measure_languages([(None, len(texts), _sample(texts))], embedder.count_broken), "")


def _sample(items: Sequence[T]) -> Sequence[T]:
    """Return every n-th item, so that about SAMPLE_PASSAGES items remain."""
    return items[:: max(1, len(items) // SAMPLE_PASSAGES)]


def measure(judgements: Judgements, queries: Collection[str], run: Run) -> Figures:
    """Return the value of each measure for each query, in the order of `queries`. A query without hits gets 0."""
    indices = {query_id: index for index, query_id in enumerate(queries)}
    figures = {name: np.zeros(len(indices)) for name in MEASURES.values()}
    for metric in ir_measures.iter_calc(list(MEASURES), judgements, run):
        figures[MEASURES[metric.measure]][indices[metric.query_id]] = metric.value
    return figures


@dataclass(frozen=True, slots=True)
class Candidates:
    """The hits of one query, which can be ranked as in any search mode."""

    document_ids: Sequence[str]
    dense: ScoredRows | None
    lexical: ScoredRows
    shortened: ScoredRows  # lexical hits of a shorter query; hybrid search shortens long queries for the model
    cosines: Callable[[Rows], Scores]
    maxsim: Callable[[Rows], Scores] | None
    facts: QueryFacts

    def rank(self, mode: Mode, *, tokens: bool) -> Ranking:
        """Rank the hits as a search in this mode does. With `tokens`, compare token vectors too."""
        if mode == "lexical":
            return fuse(None, self.lexical, self.cosines, None, self.facts)
        lexical = self.shortened if mode == "hybrid" else None
        return fuse(self.dense, lexical, self.cosines, self.maxsim if tokens else None, self.facts)


def search_corpus(
    dataset: Dataset, embedder: Embedder, mode: Mode | None, *, tokens: bool
) -> Iterator[tuple[str, Candidates]]:
    """Embed and index the documents, search for each query, and yield the id and the candidates of the query.

    With mode `lexical`, nothing is embedded. If `mode` is None, the candidates can be ranked in every mode.
    """
    documents, texts = list(dataset.corpus), list(dataset.corpus.values())
    is_dense = mode != "lexical"
    languages = [detect_language(text) for text in texts]
    unrelated = 0.0
    if is_dense:
        vectors, signs, counts = encode_documents(embedder, texts, tokens=tokens)
        starts = np.cumsum(counts, dtype=np.int64) - counts
        unrelated = measure_unrelated(embedder)
    sample = _sample(range(len(texts)))
    by_language = [
        (each, languages.count(each), [texts[row] for row in sample if languages[row] == each])
        for each in {languages[row] for row in sample}
    ]
    spoken = tuple(measure_languages(by_language, embedder.count_broken))
    collection = CollectionFacts(share_of_code([texts[row] for row in sample]), spoken, unrelated)

    def allowed_rows(terms: LexicalQuery) -> Rows:
        if terms.is_bounded:
            return reader.within(terms.required, terms.excluded).rows()
        return np.arange(len(texts))

    def shorten_query(terms: LexicalQuery) -> LexicalQuery:
        def measure(sentences: Sequence[str]) -> Scores:
            cosines = vectors[allowed_rows(terms)] @ embedder.encode(sentences, role="query").T
            return np.asarray(cosines.max(axis=0, initial=-1) - unrelated, np.float32)

        return shorten(terms, embedder, measure, read)

    def maxsim(query: QueryTokens, rows: Rows) -> Scores:
        return embedder.maxsim(query.tokens[:MAX_QUERY_TOKENS], signs, starts[rows], counts[rows])

    with tempfile.TemporaryDirectory(prefix="pilotlight-") as temporary:
        writer = LexicalWriter(Path(temporary) / "lexical")
        with closing(writer):
            for row, (text, language) in enumerate(zip(texts, languages, strict=True)):
                terms_of = [f"language:{language}"] if language else []
                writer.add(row, title="", section="", text=text, terms=terms_of, language=language)
            writer.finish()
        reader = LexicalReader(Path(temporary) / "lexical", writer.languages)
        read = partial(reader.read, is_word=embedder.has_word)
        queries = [read(query) for query in dataset.queries.values()]
        searched = list(map(shorten_query, queries)) if is_dense else queries
        meanings = [terms.meaning for terms in searched]
        query_tokens: list[QueryTokens] = []
        if is_dense and tokens:
            query_tokens = embedder.encode_query_tokens(meanings)
            query_vectors = np.stack([query.vector for query in query_tokens])
        elif is_dense:
            query_vectors = embedder.encode(meanings, role="query")
        for number, (query_id, typed, terms) in enumerate(zip(dataset.queries, queries, searched, strict=True)):
            dense, cosines = None, np.empty(0, np.float32)
            if is_dense:
                cosines, rows = vectors @ query_vectors[number], allowed_rows(terms)
                best = rows[np.argsort(-cosines[rows], kind="stable")[:CANDIDATES]]
                dense = ScoredRows(cosines[best], best)
            lexical = short = reader.search(typed, CANDIDATES)
            if terms is not typed:
                short = reader.search(terms, CANDIDATES)
            facts = QueryFacts(collection, embedder.count_broken([terms.meaning]))
            of_tokens = partial(maxsim, query_tokens[number]) if query_tokens else None
            yield query_id, Candidates(documents, dense, lexical, short, cosines.__getitem__, of_tokens, facts)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two searches to compare: an index generation (its id, or `live`) and the settings of the search."""

    text: str
    generation: str
    settings: Settings
    mode: Mode = "hybrid"
    rerank: bool = False


def read_side(text: str, settings: Settings, name: str) -> Side:
    """Parse a search to compare, such as `live,mode=dense`. Error messages contain `name`: A or B."""
    generation, *rest = _NEXT_OPTION.split(text)
    if generation != LIVE and not is_generation_id(generation):
        raise SettingsError(f"{name} must be {LIVE} or a generation id, optionally with ,NAME=VALUE…: {text[:80]!r}")
    values: dict[str, Any] = {}
    for pair in rest:
        key, _, value = pair.partition("=")
        if key not in _SIDE_OPTIONS:
            raise SettingsError(f"{name} cannot set {key[:40]!r}; it can set {', '.join(_SIDE_OPTIONS)}")
        where = f"{key} in {name}"
        values[key] = read_value(value, where, *_OPTIONS[key]) if key in _OPTIONS else BY_NAME[key].read(value, where)
    options = {key: values.pop(key) for key in _OPTIONS if key in values}
    side = Side(text, generation, replace(settings, **values), **options)
    if side.rerank and not side.settings.rerank_model:
        raise SettingsError(f"rerank in {name} needs a cross-encoder: set --rerank-model")
    return side


def by_document(judgements: Judgements) -> Judgements:
    """Merge the judgements of a document's sections into one judgement, with the highest relevance among them."""
    merged: Judgements = {}
    for query_id, judged in judgements.items():
        documents = merged.setdefault(query_id, {})
        for url, relevance in judged.items():
            documents[_page(url)] = max(relevance, documents.get(_page(url), relevance))
    return merged


def search_index(retriever: Retriever, queries: Mapping[str, str], judgements: Judgements, side: Side) -> Run:
    """Search an index for each query, and return the scores of the best 100 documents by address.

    Args:
        judgements: relevance of documents by address. A relevant duplicate of a hit is scored instead of the hit.
        side: mode of the search, and whether to rerank.
    """
    run: Run = {}
    for query_id, text in queries.items():
        ranked = run.setdefault(query_id, {})
        relevant = {url for url, relevance in judgements[query_id].items() if relevance > 0}
        request = SearchRequest(text, k=_MAX_RANKED_DOCUMENTS, per_document=1, mode=side.mode, rerank=side.rerank)
        for hit in retriever.answer_query(request).hits:
            urls = [_page(url) for url in (hit.url, *hit.duplicates)]
            ranked.setdefault(next((url for url in urls if url in relevant), urls[0]), 1 / hit.rank)
    return run


def missing_documents(retriever: Retriever, judgements: Judgements) -> list[str]:
    """Return the addresses of relevant documents that are not in the index, in alphabetical order."""
    documents = retriever.generation.documents
    return [url for url in relevant_documents(judgements) if next(documents(id=document_id(url)), None) is None]


def relevant_documents(judgements: Judgements) -> list[str]:
    """Return the addresses of documents that are judged relevant, in alphabetical order."""
    return sorted({url for judged in judgements.values() for url, relevance in judged.items() if relevance > 0})


def compare(queries: Mapping[str, str], judgements: Judgements, a: Run, b: Run) -> dict[str, Any]:
    """Compare run B with run A on judged queries. The report is JSON-ready, with the largest losses of B first."""
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
    changes: list[dict[str, Any]] = []
    for index, (query_id, text) in enumerate(queries.items()):
        difference = round(float(second[NDCG][index] - first[NDCG][index]), 4)
        a_figures, b_figures = _figures_of(first, index), _figures_of(second, index)
        changes.append({"id": query_id, "query": text, "difference": difference, "a": a_figures, "b": b_figures})
    changes.sort(key=lambda change: change["difference"])
    return {"queries": len(queries), "measures": measures, "by_query": changes}


def p_value(differences: npt.NDArray[np.float64]) -> float:
    """Return the two-sided p-value of the mean of paired differences (n,).

    The test is Fisher's randomisation test (Smucker, Allan and Carterette, "A comparison of statistical significance
    tests for information retrieval evaluation", CIKM 2007).
    """
    if len(differences) < 2 or not differences.any():
        return 1.0
    tested = permutation_test(
        (differences,),
        lambda sample, axis: sample.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=1_000,  # limits memory
        rng=np.random.default_rng(_SEED),
    )
    return float(tested.pvalue)


def modes_as_text(result: dict[str, Any]) -> str:
    """Format the result of `evaluate` for all modes as text for a terminal."""
    lines = [f"{'':<18}" + "".join(f"{name:>12}" for name in MEASURES.values())]
    for each in result["modes"]:
        name = f"{each['mode']}, with tokens" if each.get("tokens") else each["mode"]
        lines.append(
            f"{name:<20}" + "".join(f"{each[measure]:>12.4f}" for measure in MEASURES.values()).removeprefix("  ")
        )
    facts = f"{result['precision']}, queries {result['query_precision']}, {result['engine']}"
    lines += ["", f"{result['queries']:,} queries; {facts}"]
    if result["worst"]:
        lines += ["", f"lower {NDCG} in hybrid search:", f"{'':>9}{'dense':>8}{'lexical':>8}{'hybrid':>8}"]
    for each in result["worst"]:
        figures = "".join(f"{each[mode]:>8.4f}" for mode in ("dense", "lexical", "hybrid"))
        lines.append(f"  {each['difference']:+.4f}{figures}  {_shortened(each['query'])}")
    return "\n".join(lines)


def as_text(comparison: dict[str, Any]) -> str:
    """Format the result of `compare` as text for a terminal. Its keys `a` and `b` describe the searches."""
    lines, missing = [], []
    for name in ("a", "b"):
        side = comparison[name]
        facts = [side["generation"]] if side.get("generation", side["side"]) != side["side"] else []
        model = f"{side['model']} ({side['precision']}, queries {side['query_precision']})"
        facts += [f"{side['documents']:,} documents", model, side["mode"]]
        lines.append(f"{name.upper()}  {side['side']}: {', '.join(facts)}")
        if absent := side.get("missing"):
            missing.append(f"{name.upper()} does not have {absent:,} of the documents that are judged relevant")
    lines += missing
    lines += ["", f"{'':<12}{'A':>8}{'B':>8}{'B - A':>9}{'p':>9}{'better':>8}{'worse':>7}{'same':>7}"]
    lines += [
        f"{name:<12}{one['a']:>8.4f}{one['b']:>8.4f}{one['difference']:>+9.4f}{one['p']:>9.4f}"
        f"{one['better']:>8,}{one['worse']:>7,}{one['same']:>7,}"
        for name, one in comparison["measures"].items()
    ]
    queries = comparison["by_query"]
    lines += _changes("worse in B", [query for query in queries if query["difference"] < 0])
    lines += _changes("better in B", [query for query in reversed(queries) if query["difference"] > 0])
    return "\n".join(lines)


def _changes(title: str, queries: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not queries:
        return
    yield from ("", f"{title}: {len(queries):,}")
    for query in queries[:_MAX_SHOWN_QUERIES]:
        yield f"  {query['difference']:+.4f}  {_shortened(query['query'])}"


def _shortened(query: str) -> str:
    text = " ".join(query.split())
    return f"{text[:_MAX_SHOWN_CHARS]}…" if len(text) > _MAX_SHOWN_CHARS else text


def _page(url: str) -> str:
    return url.partition("#")[0]
