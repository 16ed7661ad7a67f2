"""Documents of two generations or versions in, the sections that differ out.

May import `query` and `serving`."""
