"""Publish generations to a Milvus server, and search them there."""
