"""A list of sources in, pages out in order: sites, folders, archives; what is watched, and when each is read again.

May import `crawl`, `read` and `generation`."""
