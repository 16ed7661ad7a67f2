"""Stores of generations: a folder here, or a Milvus server; both have the same methods.

May import `generation` and `publish`."""
