"""Jobs of a server: processes that build new generations, on request or from pushed documents.

The package may import `query` and the root of `rag`."""
