"""What a search can be asked for by name; the first of each is the default."""

from indexer.generation.layout import DEFAULT as DEFAULT_COLLECTION

__all__ = ["DEFAULT_COLLECTION", "EXPANSIONS", "FURTHEST", "MODES"]

MODES = ("hybrid", "dense", "lexical")
EXPANSIONS = ("none", "section")
FURTHEST = 1_000  # hits before the first one of an answer, at most
