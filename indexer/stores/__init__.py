"""Where a generation lives: a folder here, a Milvus server, or behind an address; one protocol for all.

May import `generation` and `publish`."""
