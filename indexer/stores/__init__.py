"""Stores of generations, an index folder or a Milvus server, with the same methods.

May import `generation` and `publish`."""
