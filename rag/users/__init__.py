"""Users: what `[[access]]` gives them as a `Scope`.

May import `query`, `serving` for scopes, and the root of `rag`."""
