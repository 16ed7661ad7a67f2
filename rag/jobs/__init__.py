"""Jobs: requests and pushed documents in, processes that build new generations out.

May import `query` and the root of `rag`."""
