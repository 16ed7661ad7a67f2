"""Adapters, which offer Pilotlight as a LangChain retriever and as MCP tools.

The package may import `query`, `client`, `answer`, `insights` and `serving`.
"""
