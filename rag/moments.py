"""Moments as they are written down."""

from datetime import datetime


def stamp(moment: datetime) -> str:
    """A moment in UTC as ISO 8601, to the second, with Z for the zone."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
