"""Implement the REST interface. Requests and responses are structs of `rag.messages`.

These modules may import `guards` and the top-level modules of `web`.
"""
