"""Pilotlight as LangChain, LlamaIndex and MCP know a retriever.

May import `query`, `client` and `answer`."""
