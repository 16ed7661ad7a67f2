"""Convert bytes to plain text: decode charsets, remove invisible characters, parse TOML, and note guesses.

Must not import other packages of `indexer`."""
