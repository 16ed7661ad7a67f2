"""Compare two generations, or two versions of a manual: find the sections that differ.

The package may import `query` and `serving`.
"""
