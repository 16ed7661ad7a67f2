"""Convert bytes to plain text: decode charsets, remove invisible characters, parse TOML, and collect reader notes.

Must not import other packages of `indexer`."""
