"""A line typed in a terminal in, an exit code out: the verbs of `pilotlight`.

May import every room of `rag`."""
