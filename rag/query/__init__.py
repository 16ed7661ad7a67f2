"""Answer queries: embed a query, search by vectors and by terms, fuse and rank the hits, and describe them.

The package may import the root of `rag` and `indexer.generation`.
"""
