"""Pilotlight as LangChain, LlamaIndex and MCP know a retriever.

May import `query`, `client`, `answer`, and what keeps what is asked: `insights` and `serving`."""
