"""A list of sources in, pages out in order: sites, folders, archives, documents that were sent.

What is watched, and when each source is read again.

May import `crawl`, `read`, `generation`, and of `publish` how a file gets to the disk."""
