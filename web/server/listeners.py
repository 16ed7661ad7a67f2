"""New connections: taken while there are descriptors for them, and left to a worker that has fewer."""

import errno
import logging
import os
import resource
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from web.server.load_balance import LoadBalance

ACCEPTED = 16  # at once, before requests that have come get their turn
ASIDE_S = 0.02  # that a worker leaves new connections to one that has fewer
EXHAUSTED_S = 0.5  # that nothing is accepted where there are no descriptors left
SAID_S = 60.0  # between two lines about it
_KEPT_FREE = 128  # descriptors for the index, the keys, the log and connections to others
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = logging.getLogger("gunicorn.error")


def raise_limit() -> None:
    """Let this process and its children have as many descriptors as they may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems say more than they give
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_connections(wanted: int) -> int:
    """Return how many connections there are descriptors for, beside what else needs some."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(8, min(wanted, soft - _KEPT_FREE))


class Listeners:
    """The sockets that one worker accepts connections from."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        poller: selectors.BaseSelector,
        take: Callable[[socket.socket, Any, Any], None],
        relieve: Callable[[], bool],
        balance: LoadBalance,
        worker: int,
    ) -> None:
        """Say whom connections go to.

        Args:
            sockets: which listen.
            poller: of the loop; what it has for a listener is to be called.
            take: is given each connection, its address and ours.
            relieve: closes a connection that is worth less than a new one; says whether there was one.
            balance: what the workers know of each other.
            worker: number of this one.
        """
        self._sockets = list(sockets)
        self._here = {each: each.getsockname() for each in sockets}
        self._poller = poller
        self._take = take
        self._relieve = relieve
        self._balance = balance
        self._worker = worker
        self._connections = 0
        self._is_open = False
        self._resumes = 0.0  # when it listens again, 0 if it does
        self._has_waited = False  # for another worker to take the next one
        self._said = -SAID_S
        self._unsaid = 0
        self._reserve = _spare()  # to refuse a connection with

    def open(self) -> None:
        """Begin to accept connections."""
        self._is_open = True
        for each in self._sockets:
            each.setblocking(False)
        self._listen()
        self.note(self._connections)

    def note(self, connections: int) -> None:
        """Note how many connections the worker has, and let the others know."""
        self._connections = connections
        if self._is_open:
            self._balance.note(self._worker, connections)

    def close(self) -> None:
        """Accept what the kernel has already accepted for us, and no more."""
        if not self._resumes:
            self._pause(0.0)
        for each in self._sockets:
            while self._accept_one(each):
                pass
        self._is_open = False
        self._balance.leave(self._worker)
        for each in self._sockets:
            each.close()
        if self._reserve is not None:
            os.close(self._reserve)

    def due(self) -> float | None:
        """Return when to call `resume`, None if it need not be."""
        return self._resumes or None

    def resume(self, now: float) -> None:
        """Listen again, if it is time."""
        if self._is_open and self._resumes and now >= self._resumes:
            self._has_waited = True
            self._listen()

    def _listen(self) -> None:
        self._resumes = 0.0
        for each in self._sockets:
            self._poller.register(each, selectors.EVENT_READ, lambda listener=each: self._accept(listener))

    def _pause(self, seconds: float) -> None:
        self._resumes = time.monotonic() + seconds
        for each in self._sockets:  # which stay readable, and would be told again and again
            self._poller.unregister(each)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED):
            if self._resumes:
                return
            if self._balance.has_more(self._connections) and not self._has_waited:
                self._pause(ASIDE_S)
                return
            self._has_waited = False
            if not self._accept_one(listener):
                return

    def _accept_one(self, listener: socket.socket) -> bool:
        """Take one connection; return whether there may be another."""
        try:
            client, address = listener.accept()
        except OSError as error:  # nobody there, or gone again: that is no reason to end
            return error.errno in _FULL and self._make_room(listener, error)
        self._take(client, address, self._here[listener])
        return True

    def _make_room(self, listener: socket.socket, error: OSError) -> bool:
        """Close a connection where no descriptor is left; if none can be, refuse the new one, and wait a while."""
        now = time.monotonic()
        self._unsaid += 1
        if now >= self._said + SAID_S:
            log.warning("no room for a connection: %s (%d times since this was last said)", error, self._unsaid)
            self._said, self._unsaid = now, 0
        if self._relieve():
            return True
        if self._reserve is not None:
            os.close(self._reserve)
            with suppress(OSError):
                listener.accept()[0].close()
        self._reserve = _spare()
        if self._is_open and not self._resumes:
            self._pause(EXHAUSTED_S)
        return False


def _spare() -> int | None:
    with suppress(OSError):  # another thread may have been quicker
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return None
