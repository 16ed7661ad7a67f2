"""A question in, ranked hits out: embed, search both halves, fuse, rank, present.

May import the root of `rag` and `indexer.generation`."""
