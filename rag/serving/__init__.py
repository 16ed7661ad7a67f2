"""Serving: opens each new generation, and answers from the newest one.

May import `query` and the root of `rag`."""
