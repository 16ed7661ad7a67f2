"""Two generations or versions of documents in, the sections that differ out.

May import `query` and `serving`.
"""
