"""The lexical half of a generation: texts in, BM25 over them out (Tantivy)."""
