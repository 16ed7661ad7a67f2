"""Two rankings of the same queries, compared query by query."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import permutation_test

from rag.evaluation.dataset import Judgements
from rag.evaluation.measures import NDCG, Run, means, measure

_RESAMPLES = 9_999  # of the test, which looks at all there are where they are not more than this
_SEED = 0  # the same rankings give the same p


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of both sides."""

    a: float
    b: float
    difference: float  # b - a
    p: float  # two-sided, of a paired randomisation test
    better: int  # queries
    worse: int
    same: int


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """A relevant document, and where each side has it, from 1; None where it is not among the first hundred."""

    id: str
    relevance: int
    a: int | None
    b: int | None


@dataclass(frozen=True, slots=True)
class QueryChange:
    """One query; the figures are those of `measures.MEASURES`."""

    id: str
    query: str
    difference: float  # of nDCG@10, b - a
    a: dict[str, float]
    b: dict[str, float]
    relevant: list[JudgedDocument]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two sides have found, B against A."""

    measures: dict[str, Difference]
    queries: list[QueryChange]  # what B lost most by first

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "queries": len(self.queries),
            "measures": {name: _rounded(asdict(each)) for name, each in self.measures.items()},
            "by_query": [_rounded(asdict(each)) for each in self.queries],
        }


def compare(queries: Mapping[str, str], judgements: Judgements, a: Run, b: Run) -> Comparison:
    """Compare two runs over the same judged queries."""
    first, second = (measure(judgements, queries, run) for run in (a, b))
    mean_a, mean_b = means(first), means(second)
    differences = {name: second[name] - first[name] for name in first}
    changes = [
        QueryChange(
            id=query_id,
            query=text,
            difference=float(differences[NDCG][place]),
            a={name: float(values[place]) for name, values in first.items()},
            b={name: float(values[place]) for name, values in second.items()},
            relevant=_relevant(judgements[query_id], a.get(query_id, {}), b.get(query_id, {})),
        )
        for place, (query_id, text) in enumerate(queries.items())
    ]
    return Comparison(
        {
            name: Difference(
                a=mean_a[name],
                b=mean_b[name],
                difference=mean_b[name] - mean_a[name],
                p=p_value(each),
                better=int(np.count_nonzero(each > 0)),
                worse=int(np.count_nonzero(each < 0)),
                same=int(np.count_nonzero(each == 0)),
            )
            for name, each in differences.items()
        },
        sorted(changes, key=lambda change: change.difference),
    )


def p_value(differences: npt.NDArray[np.float64]) -> float:
    """Return how often chance alone would make the mean of paired differences (n,) as large, on either side.

    Fisher's randomisation test, which for rankings is the one to use (Smucker, Allan and Carterette, "A comparison of
    statistical significance tests for information retrieval evaluation", CIKM 2007): if it made no difference which
    side is which, then each query's difference could as well have the other sign. Up to 13 queries every choice of
    signs is looked at, of more a sample.
    """
    if len(differences) < 2 or not differences.any():
        return 1.0
    tested = permutation_test(
        (differences,),
        lambda sample, axis: sample.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=1_000,  # signs that are in memory at once, for each query
        rng=np.random.default_rng(_SEED),
    )
    return float(tested.pvalue)


def _relevant(judged: Mapping[str, int], a: Mapping[str, float], b: Mapping[str, float]) -> list[JudgedDocument]:
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    return [
        JudgedDocument(id, relevance, ranks_a.get(id), ranks_b.get(id))
        for id, relevance in sorted(judged.items(), key=lambda one: (-one[1], one[0]))
        if relevance > 0
    ]


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    ordered = sorted(scores, key=lambda id: -scores[id])
    return {id: rank for rank, id in enumerate(ordered, start=1)}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
