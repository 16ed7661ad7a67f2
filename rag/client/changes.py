"""Documents that were pushed to the server, or withdrawn, and what became of them."""

import base64
import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from rag.client.transport import Transport
from rag.errors import ClientError, Unavailable

_POLL_SECONDS = 0.2
_DEALT_WITH = ("indexed", "skipped", "failed", "removed", "superseded")


class Change:
    """A document that was sent or withdrawn; `state` and `reason` are as of the last answer of the server."""

    def __init__(self, transport: Transport, path: str, raw: Any) -> None:
        self._transport = transport
        self._path = path
        self._take(raw)

    def __repr__(self) -> str:
        return f"Change({self.id}, {self.url!r}, {self.state!r})"

    def refresh(self) -> None:
        """Ask what has become of it."""
        self._take(self._transport.json("GET", f"{self._path}/{self.id}", params={"collection": self.collection}))

    def wait(self, timeout: float | None = None) -> str:
        """Wait until it was dealt with; return its state: indexed, skipped, failed, removed or superseded.

        Raises Unavailable if it still waits after so many seconds.
        """
        end = None if timeout is None else monotonic() + timeout
        pause = threading.Event()  # never set: it can be interrupted, which a sleep cannot everywhere
        while self.state not in _DEALT_WITH:
            if end is not None and monotonic() >= end:
                raise Unavailable(f"change {self.id} is still {self.state} after {timeout:g} seconds")
            pause.wait(_POLL_SECONDS)
            self.refresh()
        return self.state

    def _take(self, raw: Any) -> None:
        if not isinstance(raw, dict) or not isinstance(raw.get("id"), int) or not isinstance(raw.get("state"), str):
            raise ClientError("the server did not answer with a change: is it Pilotlight?")
        self.id: int = raw["id"]
        self.state: str = raw["state"]
        self.reason: str | None = raw.get("reason")
        self.url: str = str(raw.get("url"))
        self.document: str = str(raw.get("document"))  # its id, as hits have it
        self.collection: str = str(raw.get("collection"))


def fields_of(
    url: str, content: str | bytes, metadata: Mapping[str, str | Sequence[str]] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a request that sends a document; bytes are sent as base64."""
    body = {"text": content} if isinstance(content, str) else {"base64": base64.b64encode(content).decode("ascii")}
    fields = {"url": url, **body, **{name: value for name, value in options.items() if value is not None}}
    return fields | ({"metadata": dict(metadata)} if metadata else {})
