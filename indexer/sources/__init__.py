"""A list of sources in, their pages out in order: sites, repositories, buckets, folders, pushed documents.

May import `crawl`, `read`, `generation`, and of `publish` how a file gets to the disk."""
