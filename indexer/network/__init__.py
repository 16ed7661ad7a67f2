"""Parse addresses, select proxies, decode content codings and manage credentials, for crawlers and clients.

This package may import only `text`."""
