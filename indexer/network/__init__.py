"""Parse addresses, select proxies, decompress HTTP bodies and manage credentials, for crawlers and clients.

This package may import only `text`."""
