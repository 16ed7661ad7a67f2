"""The full-text index of a generation: index the words of chunks, and score them by BM25 with Tantivy."""
