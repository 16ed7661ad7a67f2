"""The verbs of `pilotlight`, which are its subcommands. Each turns a command line into an exit code.

The package may import every other package of `rag`."""
