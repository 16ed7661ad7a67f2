"""Word, Excel, PowerPoint, OpenDocument and EPUB files in, content out.

May import `html` and `text` to read their contents."""
