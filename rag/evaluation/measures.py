"""The measures of a ranking, by query, computed by ir-measures with the definitions of trec_eval."""

from collections.abc import Collection

import ir_measures
import numpy as np
import numpy.typing as npt
from ir_measures import RR, R, nDCG

from rag.evaluation.dataset import Judgements

Run = dict[str, dict[str, float]]  # query id: document id: score, the higher the better
Figures = dict[str, npt.NDArray[np.float64]]  # measure: a figure for each query, from 0 to 1

NDCG = "ndcg@10"
MEASURES = {nDCG @ 10: NDCG, RR @ 10: "mrr@10", R @ 100: "recall@100"}


def measure(judgements: Judgements, queries: Collection[str], run: Run) -> Figures:
    """Return every measure of every query, in the order of the queries; one for which nothing was found has 0."""
    places = {query_id: place for place, query_id in enumerate(queries)}
    figures = {name: np.zeros(len(places)) for name in MEASURES.values()}
    for metric in ir_measures.iter_calc(list(MEASURES), judgements, run):
        figures[MEASURES[metric.measure]][places[metric.query_id]] = metric.value
    return figures


def means(figures: Figures) -> dict[str, float]:
    """Return the mean of each measure over the queries."""
    return {name: float(values.mean()) for name, values in figures.items()}
