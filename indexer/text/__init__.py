"""Bytes to plain text: charsets, invisible characters, TOML, and notes on guesses.

May not import other rooms."""
