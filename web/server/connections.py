"""The connections of one worker: what each waits for, and which to close where there is no room for another."""

import selectors
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from web.server.exchange import Exchange
from web.server.receive_buffer import ReceiveBuffer
from web.server.send_buffer import SendBuffer


class State(Enum):
    """The next step of a connection."""

    READING = auto()  # a request, or more of one, is to come
    ANSWERING = auto()  # by a thread
    SENDING = auto()  # its client is to read
    LINGERING = auto()  # it was answered for good, and its client is to close it
    CLOSED = auto()


@dataclass(slots=True, eq=False)
class Connection:
    """The connection of one client."""

    sock: socket.socket
    peer: Any  # its address
    here: Any  # ours
    to_send: SendBuffer
    received: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    state: State = State.READING
    since: float = field(default_factory=time.monotonic)  # that it is in this state
    unread: int = 0  # bytes that its client had to read then
    watched: int = 0  # the events of its socket that the loop is told of
    rest: bytes = b""  # that came behind the request under way
    exchange: Exchange | None = None
    address: str = field(init=False)

    def __post_init__(self) -> None:
        """Note whose it is."""
        self.address = self.peer[0] if isinstance(self.peer, tuple) else ""

    def watch(self, poller: selectors.BaseSelector, events: int) -> None:
        """Watch for these events of its socket, and for no others."""
        if events == self.watched:
            return
        if not self.watched:
            poller.register(self.sock, events, self)
        elif events:
            poller.modify(self.sock, events, self)
        else:
            poller.unregister(self.sock)
        self.watched = events


class Connections:
    """All connections of a worker; those that wait for their clients, in the order in which they began to."""

    def __init__(self, most: int, most_of_one: int) -> None:
        """Take how many there may be, and how many of one address."""
        self._most = most
        self._most_of_one = most_of_one
        self._waiting: dict[Connection, None] = {}
        self._of: Counter[str] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, conn: Connection) -> None:
        """Count a new one."""
        self._of[conn.address] += 1
        self._count += 1

    def remove(self, conn: Connection) -> None:
        """Count one no more."""
        self._waiting.pop(conn, None)
        self._of[conn.address] -= 1
        self._count -= 1
        if not self._of[conn.address]:
            del self._of[conn.address]

    def enter(self, conn: Connection, state: State) -> None:
        """Put a connection into a state, which begins now."""
        conn.state = state
        self._waiting.pop(conn, None)
        if state is not State.ANSWERING:
            self._waiting[conn] = None
            conn.since = time.monotonic()
            conn.unread = conn.to_send.waiting

    def waiting(self) -> list[Connection]:
        """Return the connections that wait for their clients, longest first."""
        return list(self._waiting)

    def surplus(self, address: str) -> Connection | None:
        """Return the connection to close for a new one of an address; None if there is room.

        It is one of whoever has most of them, that has waited longest for its client.
        """
        if self._of[address] >= self._most_of_one:
            return self._oldest(address)
        return self.least() if len(self) >= self._most else None

    def least(self) -> Connection | None:
        """Return the connection that is worth least; None if all are being answered."""
        for address, _ in self._of.most_common():
            if found := self._oldest(address):
                return found
        return None

    def _oldest(self, address: str) -> Connection | None:
        return next((conn for conn in self._waiting if conn.address == address), None)
