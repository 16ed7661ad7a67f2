"""Stores of generations: a folder here, a Milvus server, or a collection behind an address; one protocol for all.

May import `generation` and `publish`."""
