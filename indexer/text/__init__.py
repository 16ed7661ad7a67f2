"""Bytes to plain text: charsets, invisible characters, TOML, and notes on guesses.

May import nothing of the other rooms."""
