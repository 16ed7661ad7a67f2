"""Documents of two generations or versions in, the differing sections out.

May import `query` and `serving`.
"""
