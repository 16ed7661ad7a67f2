"""The value of a refresh, in a `<meta http-equiv="refresh">` or a header: where a page sends its reader, and when."""

import re

LONGEST_DELAY = 60  # seconds; pages that send on later are made to be read, or wait for something
_LONGEST = 3_000  # characters of a value
# seconds, of which fractions do not count, a separator, url=, an address in quotes or without
_REFRESH = re.compile(r"(\d{0,9})[\d.]*[\s;,]*(url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)


def refresh_in(value: str) -> tuple[int, str] | None:
    """Return the seconds and the address of a refresh, or None if it leads nowhere, or late."""
    found = _REFRESH.match(value[:_LONGEST].strip())
    if found is None or not (found[1] or found[2]):
        return None
    seconds, address = int(found[1] or 0), found[3].strip()
    if address[:1] in ("'", '"'):
        address = address[1:].partition(address[0])[0].strip()
    return (seconds, address) if address and seconds <= LONGEST_DELAY else None
