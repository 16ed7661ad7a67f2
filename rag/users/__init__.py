"""Users: who one is by a token, and what `[[access]]` gives them as a `Scope`. Imports settings, errors and scopes."""
