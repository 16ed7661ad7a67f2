"""Readers of hand-written markup, by way of HTML: Markdown in its dialects, reStructuredText, AsciiDoc.

May import `html` and the modules of `indexer.read`."""
