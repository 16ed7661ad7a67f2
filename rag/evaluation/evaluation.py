"""Retrieval quality on a dataset: its documents are searched by the code that serves queries.

Measures are those of ir-measures, with the definitions of trec_eval.
"""

import tempfile
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import numpy.typing as npt
from ir_measures import RR, R, nDCG

from embedder.late_interaction import QueryTokens
from embedder.protocol import CrossEncoder, Embedder, encode_documents
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_writer import LexicalWriter
from rag.errors import QueryError
from rag.evaluation.dataset import Dataset, Judgements
from rag.query.options import MODES, RERANKED
from rag.query.retriever import CANDIDATES
from rag.query.scoring.fusion import FUSIONS, Rows, Scores
from rag.query.scoring.ranking import Ranking, fused, interacted, reranked, single
from rag.query.scoring.token_scores import MOST_TOKENS

Run = dict[str, dict[str, float]]  # query id: document id: score, the higher the better
Figures = dict[str, npt.NDArray[np.float64]]  # measure: a figure for each query, from 0 to 1

NDCG = "ndcg@10"
MEASURES = {nDCG @ 10: NDCG, RR @ 10: "mrr@10", R @ 100: "recall@100"}


def evaluate(
    dataset: Dataset,
    embedder: Embedder,
    *,
    mode: str = MODES[0],
    fusion: str | None = None,
    tokens: bool = False,
    reranker: CrossEncoder | None = None,
    depth: int = RERANKED,
) -> dict[str, Any]:
    """Return nDCG@10, MRR@10 and recall@100 over the judged queries, ranked by the code that serves them.

    Args:
        dataset: documents, queries and judgements.
        embedder: makes the vectors; the dense search is exact, so this judges vectors and not an index type.
        mode: one of `options.MODES`.
        fusion: one of `fusion.FUSIONS`, for mode hybrid; None for the one that serves.
        tokens: whether tokens are kept and compared, as in an index with them; not for mode lexical.
        reranker: reads the best candidates anew, `depth` of them; None leaves the rankings as they are.
        depth: how many.

    Raises:
        QueryError: there is no such mode or fusion.
    """
    fusion = fusion or FUSIONS[0]
    run = search_corpus(dataset, embedder, mode=mode, fusion=fusion, tokens=tokens, reranker=reranker, depth=depth)
    figures = measure(dataset.judgements, dataset.queries, run)
    return {
        **{name: round(float(values.mean()), 4) for name, values in figures.items()},
        "queries": len(dataset.queries),
        "mode": mode,
        **({"fusion": fusion} if mode == "hybrid" else {}),
        **({"tokens": True} if tokens and mode != "lexical" else {}),
        **({"reranker": reranker.name} if reranker else {}),
    }


def search_corpus(
    dataset: Dataset,
    embedder: Embedder,
    *,
    mode: str = MODES[0],
    fusion: str | None = None,
    tokens: bool = False,
    reranker: CrossEncoder | None = None,
    depth: int = RERANKED,
) -> Run:
    """Return the best hundred documents of the dataset for each query; arguments and errors are those of `evaluate`."""
    fusion = fusion or FUSIONS[0]
    for name, value, known in (("mode", mode, MODES), ("fusion", fusion, FUSIONS)):
        if value not in known:
            raise QueryError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    documents = list(dataset.corpus)
    rankings = _rankings(dataset, embedder, mode, fusion, tokens)
    if reranker:
        rankings = _reranked(dataset, rankings, reranker, depth)
    return {
        query_id: {
            documents[row]: float(score)
            for row, score in zip(ranking.rows[:CANDIDATES], ranking.scores[:CANDIDATES], strict=True)
        }
        for query_id, ranking in zip(dataset.queries, rankings, strict=True)
    }


def measure(judgements: Judgements, queries: Collection[str], run: Run) -> Figures:
    """Return every measure of every query, in the order of the queries; 0 where nothing was found."""
    places = {query_id: place for place, query_id in enumerate(queries)}
    figures = {name: np.zeros(len(places)) for name in MEASURES.values()}
    for metric in ir_measures.iter_calc(list(MEASURES), judgements, run):
        figures[MEASURES[metric.measure]][places[metric.query_id]] = metric.value
    return figures


def _rankings(dataset: Dataset, embedder: Embedder, mode: str, fusion: str, tokens: bool) -> Iterator[Ranking]:
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
        return embedder.maxsim(query_tokens[number].tokens[:MOST_TOKENS], signs, starts[rows], counts[rows])

    with tempfile.TemporaryDirectory(prefix="pilotlight-") as temporary:
        reader = None if mode == "dense" else _lexical(texts, Path(temporary) / "lexical")
        for number, query in enumerate(queries):
            lexical, idf_sum = None, 0.0
            if reader:
                words = reader.read(query, is_word=embedder.has_word)
                lexical, idf_sum = reader.search(words, CANDIDATES), reader.idf_sum(words)
            if lexical and mode == "lexical":
                yield single(lexical, is_dense=False)
                continue
            cosines = vectors @ query_vectors[number]
            best = np.argsort(-cosines, kind="stable")[:CANDIDATES]
            dense = cosines[best], best
            compare = partial(maxsim, number) if tokens else None
            if lexical:
                yield fused(dense, lexical, cosines.__getitem__, maxsim=compare, fusion=fusion, idf_sum=idf_sum)
            else:
                yield interacted(dense, compare) if compare else single(dense, is_dense=True)


def _reranked(dataset: Dataset, rankings: Iterator[Ranking], model: CrossEncoder, depth: int) -> Iterator[Ranking]:
    texts = list(dataset.corpus.values())
    for query, ranking in zip(dataset.queries.values(), rankings, strict=True):
        best = np.arange(min(depth, len(ranking.rows)))
        logits = model.logits(model.pairs(query, [texts[row] for row in ranking.rows[best]]))
        yield reranked(ranking, best, logits, model.activated(logits))


def _lexical(texts: list[str], folder: Path) -> LexicalReader:
    writer = LexicalWriter(folder)
    try:
        for row, text in enumerate(texts):
            writer.add(row, title="", section="", text=text)
        writer.finish()
    finally:
        writer.close()
    return LexicalReader(folder)
