"""Check requests before they reach a route: access rights, request rates and body sizes.

These modules may import the top-level modules of `web`.
"""
