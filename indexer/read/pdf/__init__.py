"""Extract the text of PDF files as sections in reading order.

A *glyph* is a letter with its position. A *word* is a run of letters without a space. A *line* (`PdfLine`) is a line of
text, or the part of a line in one column or table cell. Lines on the same base line form a *row*. A *rule* is a drawn
line, which may separate table cells. A *page element* is a line or a table. A *block* (`PdfBlock`) is a paragraph, list
item, table or piece of code. Sections consist of blocks.

These modules may import only `extraction` and `table_grid` of `indexer.read`."""
