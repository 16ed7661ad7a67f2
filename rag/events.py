"""Server-sent events, written and read: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

MEDIA_TYPE = "text/event-stream"
BEAT = b": still there\n\n"  # a comment, which readers skip; writing it shows whether there still is a reader
_MOST_CHARACTERS = 8_000_000  # of one event


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


class EventDecoder:
    """Puts events together from text that comes in any pieces."""

    def __init__(self) -> None:
        self._name, self._size = "", 0
        self._rest: list[str] = []  # of a line without its end
        self._data: list[str] = []

    def feed(self, text: str) -> Iterator[Event]:
        """Take the next piece; give the events that are whole now. Raises ValueError for one without end."""
        self._size += len(text)
        head, has_end, rest = text.rpartition("\n")
        lines = "".join([*self._rest, head]).split("\n") if has_end else []
        if has_end:
            self._rest = []
        self._rest.append(rest)
        for line in lines:
            line = line.removesuffix("\r")
            name, _, value = line.partition(":")
            if name == "event":
                self._name = value.removeprefix(" ")
            elif name == "data":
                self._data.append(value.removeprefix(" "))
            elif not line:
                event, data = self._name or "message", self._data
                self._name, self._data = "", []
                if data:
                    self._size = len(rest)
                    yield Event(event, "\n".join(data))
        if self._size > _MOST_CHARACTERS:
            raise ValueError(f"an event has more than {_MOST_CHARACTERS:,} characters")
