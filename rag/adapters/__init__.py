"""Pilotlight as LangChain and MCP know a retriever.

May import `query`, `client`, `answer`, and what keeps what is asked: `insights` and `serving`."""
