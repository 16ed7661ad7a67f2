"""A Ray cluster that works for a build: pages and texts in, documents, chunks and vectors out.

May import `cut`, `read`, `generation` and `machines` of the room above; needs the extra `ray`."""
