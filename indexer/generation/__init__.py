"""An index on disk: written once, then only read.

`writer` writes it, `generation` answers from it, `previous` takes over from the one before, `layout` names the live
one. `lexical` holds the words of passages, `dense` their vectors. May import nothing of `crawl`, `read`, `build` or
`publish`."""
