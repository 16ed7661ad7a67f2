"""Generations in, a retriever that always answers from the newest out; jobs and pushed documents that make new ones.

May import `query` and the root of `rag`."""
