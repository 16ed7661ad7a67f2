"""Clients that keep their connections open and ask one question after another; a process of their own, one thread.

Usage: clients.py PORT CLIENTS SECONDS <queries.json. Prints {"seconds", "latencies_ms", "failed"} as JSON.
"""

import json
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

WARM_UP = 0.25  # share of the time, before it, that is not counted
_TIMEOUT_S = 60


def requests(queries: list[str]) -> Iterator[bytes]:
    """Give complete requests for ever, GET and POST by turns."""
    turn = 0
    while True:
        query = queries[turn % len(queries)]
        if turn % 2:
            body = json.dumps({"query": query, "k": 10}).encode()
            head = f"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            yield f"{head}Content-Type: application/json\r\n\r\n".encode() + body
        else:
            yield f"GET /api/v1/search?q={quote(query)}&k=10 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        turn += 1


class Client:
    """One connection and the answer that is coming in on it."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self.socket = self._connect()
        self._received = b""
        self.sent_at = 0.0

    def ask(self, request: bytes) -> None:
        """Send a request; it is small enough never to block."""
        self._received = b""
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> int | None:
        """Read what has come; return the status once the answer is complete, 0 if the connection broke."""
        part = self.socket.recv(1 << 18)
        if not part:
            return 0
        self._received += part
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        head = head.lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]) if len(body) >= length else None

    def reconnect(self) -> None:
        """Start again with a new connection."""
        self.socket.close()
        self.socket = self._connect()

    def _connect(self) -> socket.socket:
        made = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def run(port: int, count: int, seconds: float, queries: list[str]) -> dict[str, Any]:
    """Keep `count` requests under way; return the latency in milliseconds of each answered after the warm-up."""
    selector = selectors.DefaultSelector()
    source = requests(queries)
    latencies: list[float] = []
    failed = 0
    for _ in range(count):
        client = Client(port)
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.ask(next(source))
    begin = time.perf_counter() + seconds * WARM_UP
    end = begin + seconds
    while (now := time.perf_counter()) < end:
        for key, _ in selector.select(timeout=end - now):
            client = key.data
            status = client.receive()
            if status is None:
                continue
            done = time.perf_counter()
            if done >= begin:
                if status == 200:
                    latencies.append((done - client.sent_at) * 1000)
                else:
                    failed += 1
            if status == 0:
                selector.unregister(key.fileobj)
                client.reconnect()
                selector.register(client.socket, selectors.EVENT_READ, client)
            client.ask(next(source))
    return {"seconds": time.perf_counter() - begin, "latencies_ms": latencies, "failed": failed}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), json.load(sys.stdin))))
