"""Read the documents of sources, and publish an immutable generation of their index."""
