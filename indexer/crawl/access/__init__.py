"""What an origin is asked with: a description in, headers, cookies and a certificate out; logs in, and in again.

May import nothing of the rest of `crawl`, which asks it before each request.
"""
