"""Bytes in, a document of sections out, in a process that may do nothing else.

`reader_process` starts the process, `reader_main` is its program, and `formats` assigns a reader to each format. The
readers are in the folders, and in `mail`, `openapi` and `text`. May not import `crawl`, `pipeline` or `publish`.
"""
