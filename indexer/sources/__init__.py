"""A list of sources in, their pages out in order: sites, repositories, buckets, folders, pushed documents.

May import `crawl`, `read`, `generation`, and from `publish` the functions that write files to disk."""
