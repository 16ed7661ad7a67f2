"""A written generation in, the live one out: locks, swaps, rollbacks, copies in archives, and checks of files.

May import `generation`, and `cut` to check settings."""
