"""Serve an index: open each new build, and answer requests from the newest one.

The package may import `query` and the root of `rag`."""
