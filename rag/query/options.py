"""Names and numbers of a search; the first of several names is the default."""

from indexer.generation.layout import DEFAULT as DEFAULT_COLLECTION

__all__ = ["CLOSE", "DEFAULT_COLLECTION", "EXPANSIONS", "FURTHEST", "MODES", "RERANKED"]

MODES = ("hybrid", "dense", "lexical")
EXPANSIONS = ("none", "section")
CLOSE = 0.4  # cosine from which a passage is close to a query whatever its words
BOILERPLATE = 0.1  # share of its score that a passage loses which repeats from end to end
RERANK_WEIGHT = 0.5  # of a cross-encoder against the search
FURTHEST = 1_000  # hits before the first one of an answer, at most
RERANKED = 20  # candidates that a cross-encoder reads, unless the server is set otherwise
SUGGESTED, MOST_SUGGESTED = 6, 20  # queries, while somebody types: unless asked otherwise, and at most
MOST_EXCHANGES, MOST_OF_ANSWER = 20, 20_000  # of a conversation that is sent along: questions; characters of an answer
MAX_K = 100  # hits of one query
MAX_QUERY_CHARS = 10_000
PER_DOCUMENT = 2  # hits from one document, unless the query says
