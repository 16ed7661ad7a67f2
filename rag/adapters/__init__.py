"""Adapters: Pilotlight as a retriever of LangChain and as tools of MCP.

May import `query`, `client`, `answer`, `insights` and `serving`.
"""
