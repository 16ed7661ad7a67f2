"""Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import json
from typing import Any, NamedTuple

MEDIA_TYPE = "text/event-stream"
BEAT = b": still there\n\n"  # a comment, which readers skip; writing it shows whether there still is a reader


class Event(NamedTuple):
    """One event; `data` is JSON where Pilotlight wrote it."""

    name: str
    data: str

    def encode(self) -> bytes:
        """Return the event as it is sent; the data may not hold line breaks, as JSON does not."""
        return f"event: {self.name}\ndata: {self.data}\n\n".encode()


def event_of(name: str, value: Any) -> Event:
    """Return an event that carries a JSON-ready value."""
    return Event(name, json.dumps(value, ensure_ascii=False))
