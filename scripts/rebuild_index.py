#!/usr/bin/env python3
"""Rebuild the index from a cron job. The arguments are those of `pilotlight index`.

Without a SOURCE, the sources of the live index are read again. A running server loads the new index automatically.
"""

import sys

from rag.commands.cli import main

if __name__ == "__main__":
    sys.exit(main(["index", *sys.argv[1:]]))
