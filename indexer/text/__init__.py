"""Bytes to plain text: charsets, invisible characters, TOML, and notes on what was guessed.

May import nothing of the other rooms."""
