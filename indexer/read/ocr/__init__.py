"""Read scanned pages: `pages` finds Tesseract and requests each page, `scans` reads a page in a reader process.

May not import other formats."""
