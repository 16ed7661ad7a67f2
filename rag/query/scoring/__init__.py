"""What the searches found in, an order out: fusion, boilerplate, boosts, reranking, near-duplicates, variety.

May import `rag.query`, the root of `rag` and `indexer.generation`."""
