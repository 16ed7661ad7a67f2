"""A PDF in, sections of text in reading order out.

A *glyph* is a letter with its place; a *word* is a run of letters without a space; a *line* (`PdfLine`) is the piece of
a line of text in one column or cell. A *rule* or *upright* is a line that is drawn, and a *table* is made of lines
between such. Lines and tables are the *units* that are put in reading order. A *block* (`PdfBlock`) is a paragraph, an
item, code or a table, and blocks make sections.

May import nothing of its neighbours but `extraction`, `metadata` and `tables`."""
