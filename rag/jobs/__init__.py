"""Start and stop the processes in which a server rebuilds its index, on request or after documents are pushed.

The package may import `query` and the root of `rag`."""
