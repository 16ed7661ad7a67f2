"""Links of a document: a page, sitemap or feed in, addresses out.

May import `html` and `files`.
"""
