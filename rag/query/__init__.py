"""A query in, ranked hits out: embed, search by vectors and by terms, fuse, rank, present.

May import the root of `rag` and `indexer.generation`.
"""
