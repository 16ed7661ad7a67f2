"""Bytes in, a document of sections out, in a process that may do nothing else.

`sandbox` starts the process, `worker` is it, `formats` says who reads what; a format is a module in `html`, `office` or
`files`. May import nothing of `crawl`, `build` or `publish`."""
