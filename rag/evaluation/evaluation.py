"""Retrieval quality on a dataset: its documents are searched by the code that serves queries.

Measures are those of ir-measures, with the definitions of trec_eval.
"""

import csv
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ir_measures
import msgspec
import numpy as np
import numpy.typing as npt
from ir_measures import RR, R, nDCG

from embedder.late_interaction import QueryTokens
from embedder.protocol import CrossEncoder, Embedder, encode_documents
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.rows import TermHits
from rag.errors import DatasetError, QueryError
from rag.query.ranking import MAX_QUERY_TOKENS, Ranking, Rows, Scores, fuse, rerank
from rag.query.request import MODES, RERANKED
from rag.query.retriever import CANDIDATES

Judgements = dict[str, dict[str, int]]  # query id: document id: relevance
Run = dict[str, dict[str, float]]  # query id: document id: score, the higher the better
Figures = dict[str, npt.NDArray[np.float64]]  # measure: a figure for each query, from 0 to 1

_LONGEST = 10_000_000  # bytes of a document or query
_MOST_RELEVANT = 1_000_000
NDCG = "ndcg@10"
MEASURES = {nDCG @ 10: NDCG, RR @ 10: "mrr@10", R @ 100: "recall@100"}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A BEIR test split."""

    corpus: dict[str, str]  # document id: title + " " + text
    queries: dict[str, str]  # only those that are judged
    judgements: Judgements


class _Row(msgspec.Struct):
    id: str = msgspec.field(name="_id")
    text: str
    title: str | None = None


def read_dataset(folder: Path) -> Dataset:
    """Read corpus.jsonl, queries.jsonl and qrels/test.tsv. Raises DatasetError naming the file and line."""
    corpus = {row.id: f"{row.title or ''} {row.text}".strip() for row in _json_lines(folder / "corpus.jsonl")}
    queries, judgements = read_questions(folder)
    if not corpus:
        raise DatasetError(f"{folder} has no documents: is it in BEIR's layout?")
    return Dataset(corpus, queries, judgements)


def read_questions(folder: Path) -> tuple[dict[str, str], Judgements]:
    """Read queries.jsonl and qrels/test.tsv: the judged queries, and their judgements. Raises as `read_dataset`."""
    judgements: Judgements = {}
    path = folder / "qrels" / "test.tsv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                relevance = int(row["score"])
                if abs(relevance) > _MOST_RELEVANT:
                    raise ValueError(f"a score is over {_MOST_RELEVANT:,}")
                judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = relevance
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
            while line := file.readline(_LONGEST + 1):
                number += 1
                if len(line) > _LONGEST:
                    raise ValueError(f"it has over {_LONGEST:,} bytes")
                yield decoder.decode(line)
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror or error}; is the folder in BEIR's layout?") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path} line {number} is not JSON with _id and text, as BEIR has it: {error}") from error


def evaluate(
    dataset: Dataset,
    embedder: Embedder,
    *,
    mode: str = MODES[0],
    tokens: bool = False,
    reranker: CrossEncoder | None = None,
) -> dict[str, Any]:
    """Return the mean of each measure over the judged queries; arguments and errors are those of `search_corpus`."""
    run = search_corpus(dataset, embedder, mode=mode, tokens=tokens, reranker=reranker)
    figures = measure(dataset.judgements, dataset.queries, run)
    return {
        **{name: round(float(values.mean()), 4) for name, values in figures.items()},
        "queries": len(dataset.queries),
        "mode": mode,
        **({"tokens": True} if tokens and mode != "lexical" else {}),
        **({"reranker": reranker.name} if reranker else {}),
    }


def search_corpus(
    dataset: Dataset,
    embedder: Embedder,
    *,
    mode: str = MODES[0],
    tokens: bool = False,
    reranker: CrossEncoder | None = None,
) -> Run:
    """Return the best hundred documents of a dataset for each query, ranked by the code that serves queries.

    Args:
        dataset: documents, queries and judgements.
        embedder: makes the vectors; the dense search is exact, so this judges vectors and not an index type.
        mode: one of `options.MODES`.
        tokens: whether tokens are kept and compared, as in an index with them; not for mode lexical.
        reranker: reads the best candidates again; None leaves the rankings as they are.

    Raises:
        QueryError: there is no such mode.
    """
    if mode not in MODES:
        raise QueryError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    documents, texts = list(dataset.corpus), list(dataset.corpus.values())
    run: Run = {}
    for (query_id, query), ranking in zip(
        dataset.queries.items(), _rankings(dataset, embedder, mode, tokens), strict=True
    ):
        if reranker:
            best = np.arange(min(RERANKED, len(ranking.rows)))
            logits = reranker.logits(reranker.pairs(query, [texts[row] for row in ranking.rows[best]]))
            ranking = rerank(ranking, best, logits, reranker.activated(logits))
        scored = zip(ranking.rows[:CANDIDATES], ranking.scores[:CANDIDATES], strict=True)
        run[query_id] = {documents[row]: float(score) for row, score in scored}
    return run


def measure(judgements: Judgements, queries: Collection[str], run: Run) -> Figures:
    """Return every measure of every query, in the order of the queries; 0 where nothing was found."""
    places = {query_id: place for place, query_id in enumerate(queries)}
    figures = {name: np.zeros(len(places)) for name in MEASURES.values()}
    for metric in ir_measures.iter_calc(list(MEASURES), judgements, run):
        figures[MEASURES[metric.measure]][places[metric.query_id]] = metric.value
    return figures


def _rankings(dataset: Dataset, embedder: Embedder, mode: str, tokens: bool) -> Iterator[Ranking]:
    """Rank the documents for every query, in the order of the queries."""
    texts, queries = list(dataset.corpus.values()), list(dataset.queries.values())
    query_tokens: list[QueryTokens] = []
    if mode != "lexical":
        vectors, signs, counts = encode_documents(embedder, texts, tokens=tokens)
        starts = np.cumsum(counts, dtype=np.int64) - counts
        if tokens:
            query_tokens = embedder.encode_query_tokens(queries)
            query_vectors = np.stack([made.vector for made in query_tokens])
        else:
            query_vectors = embedder.encode(queries, role="query")

    def maxsim(number: int, rows: Rows) -> Scores:
        return embedder.maxsim(query_tokens[number].tokens[:MAX_QUERY_TOKENS], signs, starts[rows], counts[rows])

    with tempfile.TemporaryDirectory(prefix="pilotlight-") as temporary:
        reader = None
        if mode != "dense":
            writer = LexicalWriter(Path(temporary) / "lexical")
            with closing(writer):
                for row, text in enumerate(texts):
                    writer.add(row, title="", section="", text=text)
                writer.finish()
            reader = LexicalReader(Path(temporary) / "lexical")
        for number, query in enumerate(queries):
            dense = lexical = None
            cosines = np.empty(0, np.float32)
            if reader:
                terms = reader.read(query, is_word=embedder.has_word)
                lexical = TermHits(*reader.search(terms, CANDIDATES), reader.idf_sum(terms))
            if mode != "lexical":
                cosines = vectors @ query_vectors[number]
                best = np.argsort(-cosines, kind="stable")[:CANDIDATES]
                dense = cosines[best], best
            yield fuse(dense, lexical, cosines.__getitem__, partial(maxsim, number) if query_tokens else None)
