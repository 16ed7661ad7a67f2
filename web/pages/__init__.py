"""The pages that people see: search, documents, status, what people ask.

May import `api` for parameters, `guards` and the root of `web`."""
