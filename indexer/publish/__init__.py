"""A written generation in, a live generation out: locks, swaps, rollbacks, archives, and checks of files.

May import `generation`."""
