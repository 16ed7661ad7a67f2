"""The pages that people see: search, documents, status, what people ask.

May import `api` for parameters, `guards`, `observe` and the root of `web`."""
