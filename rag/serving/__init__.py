"""Following: generations in, a retriever that always answers from the newest out.

May import `query` and the root of `rag`."""
