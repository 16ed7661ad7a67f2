"""Addresses, proxies, credentials and content codings, for crawlers and clients.

May import only `text`."""
