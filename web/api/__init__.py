"""The REST interface: requests in, answers out, both structs of `rag.messages`; a blueprint for each concern.

May import `guards` and the root of `web`."""
