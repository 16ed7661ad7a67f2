"""Convert files of all formats to documents with sections, in processes that have no access to files or the network.

A reader is a function that converts one format. Readers are in the subpackages, and in `mail`, `openapi` and `text`.
`formats` assigns a reader to each media type. `reader_process` starts the processes. Their program is `reader_main`.
Readers must not import `crawl`, `pipeline` or `publish`.
"""
