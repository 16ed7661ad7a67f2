"""The lexical half of a generation: index texts, and score them by BM25 (Tantivy)."""
