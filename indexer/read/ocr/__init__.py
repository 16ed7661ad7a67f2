"""Pictures of pages in, their text out, by Tesseract.

`installation` says whether that is to be had here, `pages` asks for it page by page; both belong to the build. `scans`,
`pictures` and `recogniser` run in reader processes alone. May import nothing of the other formats."""
