"""Start and stop the processes in which a server builds new generations, on request or from pushed documents.

The package may import `query` and the root of `rag`."""
