"""Build an index: read sources, embed their passages, and publish a generation with a report.

This package may import all packages of `indexer` except `stores`."""
