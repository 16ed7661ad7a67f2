"""Stores of generations: an index folder and a Milvus server, with the same methods.

May import `generation` and `publish`."""
