"""What a document leads to: a page, sitemap or feed in, addresses out.

May import `html` and `files`.
"""
