"""Bytes that a client has still to read: threads put them here and go on, the loop sends them."""

import socket
from collections import deque
from itertools import islice

_TOGETHER = 64  # parts that are handed to the kernel at once


class SendBuffer:
    """Bytes on their way to one client. One thread at a time uses it: the one that answers, or the loop.

    It stands in for the socket where gunicorn writes an answer.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Take a socket that does not block."""
        self._sock = sock
        self._parts: deque[memoryview] = deque()
        self.waiting = 0  # bytes

    def sendall(self, data: bytes) -> None:
        """Take bytes to send; `flush` sends them."""
        if data:
            self._parts.append(memoryview(data))
            self.waiting += len(data)

    def send(self, data: bytes) -> int:
        """Take nothing: this is how gunicorn asks for a body that has come already."""
        return len(data)

    def flush(self) -> None:
        """Send what the kernel takes now. Raises OSError if the client is gone."""
        while self._parts:
            try:
                sent = self._sock.sendmsg(list(islice(self._parts, _TOGETHER)))
            except BlockingIOError:
                return
            self.waiting -= sent
            while self._parts and sent >= len(self._parts[0]):
                sent -= len(self._parts.popleft())
            if sent:
                self._parts[0] = self._parts[0][sent:]

    def drop(self) -> None:
        """Forget what has not been sent."""
        self._parts.clear()
        self.waiting = 0
