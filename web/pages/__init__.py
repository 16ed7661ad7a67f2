"""Pages for readers and operators: search, documents, status, insights.

May import `api` for parameters, `guards` and the root of `web`."""
