"""Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import json
from typing import Any, NamedTuple

MEDIA_TYPE = "text/event-stream"
BEAT = b": still there\n\n"  # a comment, which clients ignore; sending it detects closed connections


class Event(NamedTuple):
    """One event. `data` is JSON if Pilotlight created the event."""

    name: str
    data: str

    def encode(self) -> bytes:
        """Return the event as bytes to send; `data` must not have line breaks, and JSON has none."""
        return f"event: {self.name}\ndata: {self.data}\n\n".encode()


def event_of(name: str, value: Any) -> Event:
    """Return an event that carries a JSON-ready value."""
    return Event(name, json.dumps(value, ensure_ascii=False))
