"""A PDF in, sections of text in reading order out: words with their places, columns, tables, paragraphs, headings.

May import nothing of its neighbours but `extraction`, `metadata` and `tables`."""
