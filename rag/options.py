"""What a search can be asked for by name; the first of each is the default."""

from indexer.layout import DEFAULT as DEFAULT_COLLECTION

__all__ = ["DEFAULT_COLLECTION", "EXPANSIONS", "MODES"]

MODES = ("hybrid", "dense", "lexical")
EXPANSIONS = ("none", "section")
