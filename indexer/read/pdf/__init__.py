"""PDF files in, sections of text in reading order out.

A *glyph* is a letter with its position. A *word* is a run of letters without a space. A *line* (`PdfLine`) is a line of
text, or its *piece* in one column or cell; lines on one base line are a *row*. A *rule* is a horizontal drawn line, an
*upright* a vertical one; a *table* has its cells between them. A *unit* is a line or a table, to be put in reading
order. A *block* (`PdfBlock`) is a paragraph, an item, code or a table made of units; blocks make sections.

May import only `extraction` and `table_grid` of `read`."""
