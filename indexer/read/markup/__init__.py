"""Readers that convert hand-written markup to HTML: Markdown in its dialects, reStructuredText, AsciiDoc.

May import `html` and the modules of `indexer.read`."""
