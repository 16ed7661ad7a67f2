"""Read the documents of sites, repositories, buckets and folders, and publish them as an immutable index."""
