"""Read scanned pages with Tesseract: `pages` finds it and requests each page, `scans` reads one in a reader process.

May import nothing of the other formats."""
