"""Bytes in, a document of sections out, in a process that may do nothing else.

`reader_process` starts the process, `reader_main` is what it runs, `formats` says who reads what; a format is a module
in `html`, `markup`, `office`, `pdf` or `files`. May import nothing of `crawl`, `pipeline` or `publish`."""
