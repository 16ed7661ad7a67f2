"""Convert markup to HTML: dialects of Markdown, reStructuredText and AsciiDoc.

These modules may import `html` and the modules of `indexer.read`."""
