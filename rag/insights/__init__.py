"""What people ask: searches and what became of them in, reports, suggestions and test sets out; all on this machine.

Nothing is kept, and no thread begun, unless the setting `insights` is on. May import `query`, `serving` for scopes, and
the root of `rag`.
"""
