"""Publish written generations. Provides the writer lock, rollbacks, archives and checks of files.

This package may import `generation`."""
