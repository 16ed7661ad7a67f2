"""Builds of the index that run on the server."""

import threading
from time import monotonic
from typing import Any
from urllib.parse import quote

from rag.client.transport import Transport
from rag.errors import ClientError, Unavailable

_POLL_SECONDS = 0.5
_RUNNING = ("running", "cancelling")


class Job:
    """A build; `state`, `progress`, `report` and `error` are as of the last answer of the server."""

    def __init__(self, transport: Transport, path: str, raw: Any) -> None:
        self._transport = transport
        self._path = path
        self._take(raw)

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state!r})"

    @property
    def running(self) -> bool:
        """Whether it has not come to its end, good or bad."""
        return self.state in _RUNNING

    def refresh(self) -> None:
        """Ask how far it is."""
        self._take(self._transport.json("GET", self._address))

    def cancel(self) -> None:
        """Have it stopped; the live index stays as it is."""
        self._take(self._transport.json("DELETE", self._address))

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until it has ended; return the report of the build.

        Raises:
            Unavailable: it still runs after so many seconds.
            ClientError: it failed or was cancelled; `error` says why.
        """
        end = None if timeout is None else monotonic() + timeout
        pause = threading.Event()  # never set: it can be interrupted, which a sleep cannot everywhere
        while self.running:
            if end is not None and monotonic() >= end:
                raise Unavailable(f"job {self.id} is still {self.state} after {timeout:g} seconds")
            pause.wait(_POLL_SECONDS)
            self.refresh()
        if self.report is None:
            raise ClientError(f"job {self.id} is {self.state}: {self.error or 'the log of the server says why'}")
        return self.report

    @property
    def _address(self) -> str:
        return f"{self._path}/{quote(self.id, safe='')}"

    def _take(self, raw: Any) -> None:
        if not isinstance(raw, dict) or not isinstance(raw.get("id"), str) or not isinstance(raw.get("state"), str):
            raise ClientError("the server did not answer with a job: is it Pilotlight?")
        self.id: str = raw["id"]
        self.state: str = raw["state"]
        self.progress: dict[str, Any] = raw.get("progress") or {}
        self.report: dict[str, Any] | None = raw.get("report")
        self.error: str | None = raw.get("error")
