"""Offer searches as a LangChain retriever and as MCP tools.

The package may import `query`, `client`, `answer`, `insights` and `serving`.
"""
