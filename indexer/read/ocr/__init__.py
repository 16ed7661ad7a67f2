"""Read pictures of pages by Tesseract: `pages` finds it and asks for each page, `scans` reads one.

`scans` runs in reader processes only. May import nothing of the other formats."""
