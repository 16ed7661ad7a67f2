"""Links of a document, and forms: a page, sitemap or feed in, addresses out.

May import `html` and `files`.
"""
