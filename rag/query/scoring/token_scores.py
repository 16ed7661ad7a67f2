"""MaxSim of a query's tokens against those of passages."""

import numpy as np

from embedder.protocol import Embedder
from indexer.generation.tokens import TokenSource
from rag import deadline
from rag.query.scoring.fusion import Rows, Scores

MOST_TOKENS = 256  # of a query that are compared with those of passages: about 200 words, the first ones
_SLICE = 64  # passages whose tokens are compared before the deadline is asked


def score_tokens(embedder: Embedder, query: Scores, kept: TokenSource, rows: Rows) -> Scores:
    """Score passages by their tokens, float32 (n,).

    Args:
        embedder: whose kernels compare.
        query: its tokens, float32 (tokens, width).
        kept: the tokens of the index.
        rows: of the passages, (n,).

    Raises:
        DeadlinePassed: it passes meanwhile.
    """
    scores = np.zeros(len(rows), dtype=np.float32)
    for start in range(0, len(rows), _SLICE):
        deadline.check()
        some = slice(start, start + _SLICE)
        scores[some] = embedder.maxsim(query[:MOST_TOKENS], *kept.gather(rows[some]))
    return scores
