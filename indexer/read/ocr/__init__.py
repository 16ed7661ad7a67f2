"""Read pictures of pages by Tesseract: `installation` finds it, `pages` asks for each page, `scans` reads one.

`scans` runs in reader processes only. May import nothing of the other formats."""
