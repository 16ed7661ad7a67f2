"""A page, sitemap or feed in, addresses out."""
