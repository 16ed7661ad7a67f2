"""Convert markup to HTML: the dialects of Markdown, reStructuredText and AsciiDoc.

These modules may import `indexer.read.html` and the modules of `indexer.read`.
"""
