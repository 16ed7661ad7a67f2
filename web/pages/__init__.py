"""HTML pages for readers and operators: search, documents, status and insights.

These modules may import `api`, `guards` and the top-level modules of `web`."""
