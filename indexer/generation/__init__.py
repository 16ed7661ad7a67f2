"""What an index is on disk: written once, then only read.

`writer` writes it, `generation` answers from it, `earlier` takes over from the one before. `words` is its lexical half,
`dense` the other. May import nothing of `crawl`, `read`, `build` or `publish`."""
