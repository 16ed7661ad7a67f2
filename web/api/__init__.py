"""Implement the REST interface. Requests and responses are structs of `rag.messages`.

These modules may import `guards` and the modules directly in `web`.
"""
