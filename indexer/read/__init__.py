"""Convert files of all formats to documents with sections, in confined processes.

`reader_process` starts a process, `reader_main` is its program, and `formats` assigns a reader to each format. Readers
are in the subpackages, and in `mail`, `openapi` and `text`. Readers must not import `crawl`, `pipeline` or `publish`.
"""
