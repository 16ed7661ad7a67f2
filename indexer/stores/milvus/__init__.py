"""Generations in a Milvus server: published to it, searched in it."""
