"""The verbs of `pilotlight`: a command line in, an exit code out.

May import every room of `rag`."""
