"""Read the pages of sources in order: sites, repositories, buckets, folders and pushed documents.

This package may import `crawl`, `read`, `generation`, and functions of `publish` that write files to disk."""
