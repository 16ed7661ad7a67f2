#!/usr/bin/env python3
"""Rebuild the index from a cron job; the same as `pilotlight index`, with the same flags.

Without a SOURCE it reads the sources of the live index again. A running server loads the new generation itself.
"""

import sys

from rag.commands.cli import main

if __name__ == "__main__":
    sys.exit(main(["index", *sys.argv[1:]]))
