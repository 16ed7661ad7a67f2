"""Extract the text of Word, Excel, PowerPoint, OpenDocument and EPUB files.

These modules may import `html` and `text` of `indexer.read`."""
