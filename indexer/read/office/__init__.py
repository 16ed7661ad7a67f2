"""Word, Excel, PowerPoint, OpenDocument and EPUB files in, content out.

May import `html` and `files` to read their contents."""
