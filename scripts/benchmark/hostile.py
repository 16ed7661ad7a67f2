"""Keyed searches and probes beside 2,000 hostile connections, on loopback: what they cost everybody else."""

import heapq
import http.client
import itertools
import json
import multiprocessing
import selectors
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote

from benchmark.corpus import QUERIES
from benchmark.overload import ready_index
from benchmark.report import OURS, Row
from benchmark.serving import running
from embedder import Embeddings
from rag.serving.api_keys import KeyFile
from rag.settings import load

CLIENTS = 16
CONNECTIONS = 2000
_AGAIN_S = 1.0  # after which a connection that was closed is made again, and one that drips sends more
_PROBE_S = 0.05
_TEXTS = 2040
_SPAWN = multiprocessing.get_context("spawn")
_HOST = b"Host: localhost\r\n"
_POST = b"POST /api/v1/search HTTP/1.1\r\n" + _HOST


def _get(path: str, more: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\n".encode() + _HOST + more + b"\r\n"


@dataclass(frozen=True)
class Attack:
    """One kind of hostile connection."""

    first: bytes
    drip: bytes = b""  # again and again
    reads: bool = True
    closes: bool = False  # its own half


ATTACKS = (
    Attack(b"GET / HTTP/1.1\r\n" + _HOST, drip=b"X: y\r\n"),
    Attack(_POST + b"Content-Length: 60000\r\n\r\n", drip=b"{"),
    Attack(_POST + b"Transfer-Encoding: chunked\r\n\r\n", drip=b"1\r\n \r\n"),
    Attack(_POST + b"Content-Length: 1000000000000000000\r\n\r\n"),
    Attack(_POST + b"Transfer-Encoding: identity, chunked\r\n\r\n"),
    Attack(_get("/static/page.css") * 100, reads=False),
    Attack(_get("/openapi.json") * 50, reads=False),
    Attack(_POST + b"Content-Length: 20\r\n\r\n{", closes=True),
    Attack(_get("/api/v1/search?q=a"), drip=_get("/api/v1/search?q=a")),
    Attack(_get("/api/v1/search?q=a", b"Authorization: Bearer wrong-wrong-wrong-wrong\r\n")),
)


def hostile(source: Path, chunks: int, seconds: int, work: Path) -> list[Row]:
    """Measure 16 keyed clients and `/livez` for so many seconds without, and then with, all those connections."""
    ready_index(source, chunks, work, Embeddings(load().embedder_config()))
    keys = KeyFile(work / "index" / "keys.json")
    keys.path.unlink(missing_ok=True)
    key = keys.add("bench", "read")
    line = [sys.executable, "-m", "rag.commands.cli", "serve", "--index", str(work / "index"), "--port", "{port}"]
    with ExitStack() as stack:
        stack.callback(keys.path.unlink)  # others measure without keys
        server = stack.enter_context(running(line, {"PILOTLIGHT_LOG_FORMAT": "text"}))
        server.await_workers()
        measure(server.port, key, 3)  # warms up
        alone = measure(server.port, key, seconds)
        crowd = _SPAWN.Process(target=attack, args=(server.port, seconds + 8.0))
        crowd.start()
        time.sleep(5)  # until all are there
        attacked = measure(server.port, key, seconds)
        crowd.join()
        greedy = _SPAWN.Process(target=embed, args=(server.port, key, seconds + 3.0))
        greedy.start()
        time.sleep(2)
        beside = measure(server.port, key, seconds)
        greedy.join()
    what = f"{CLIENTS} clients"
    return [
        {"name": what, "contestant": OURS, **alone},
        {
            "name": f"{what}, {CONNECTIONS:,} hostile connections",
            "contestant": OURS,
            **attacked,
            "ratio": round(attacked["per_second"] / alone["per_second"], 2),
        },
        {
            "name": f"{what}, one that embeds {_TEXTS:,} texts at once",
            "contestant": OURS,
            **beside,
            "ratio": round(beside["per_second"] / alone["per_second"], 2),
        },
    ]


def measure(port: int, key: str, seconds: float) -> Row:
    """Search with a key and probe for so many seconds; answers a second, times in ms, and what else was answered."""
    end = time.monotonic() + seconds
    took: list[float] = []
    others: Counter[str] = Counter()
    receiver, sender = _SPAWN.Pipe(duplex=False)
    # a process of its own: threads here would wait for each other
    prober = _SPAWN.Process(target=probe, args=(port, seconds, sender))

    def search(client: int) -> None:
        connection, turn = http.client.HTTPConnection("127.0.0.1", port, timeout=30), 0
        while time.monotonic() < end:
            turn += 1
            query = quote(f"{QUERIES[turn % len(QUERIES)]} {client} {turn}")
            _ask(connection, f"/api/v1/search?k=10&q={query}", key, took, others)
        connection.close()

    threads = [threading.Thread(target=search, args=(client,)) for client in range(CLIENTS)]
    prober.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    probes, failed = receiver.recv()
    prober.join()
    others.update(failed)
    return {
        "per_second": round(len(took) / seconds, 1),
        "median_ms": _quantile(took, 0.5),
        "p99_ms": _quantile(took, 0.99),
        "livez_p99_ms": _quantile(probes, 0.99),
        "statuses": dict(others),
    }


def probe(port: int, seconds: float, sender: Connection) -> None:
    """Ask `/livez` again and again, each time on a new connection; send the times in ms, and what went wrong."""
    end = time.monotonic() + seconds
    took: list[float] = []
    others: Counter[str] = Counter()
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        _ask(connection, "/livez", None, took, others)
        connection.close()
        time.sleep(_PROBE_S)
    sender.send((took, others))


def embed(port: int, key: str, seconds: float) -> None:
    """Ask for the vectors of as many and as long texts as one request may have, again and again."""
    end = time.monotonic() + seconds
    body = json.dumps({"input": ["every one of these texts has as many words as make a kilobyte " * 15] * _TEXTS})
    headers = _bearer(key) | {"Content-Type": "application/json"}
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v1/embeddings", body, headers)
        connection.getresponse().read()
        connection.close()


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _ask(
    connection: http.client.HTTPConnection, path: str, key: str | None, took: list[float], others: Counter[str]
) -> None:
    began = time.perf_counter()
    try:
        connection.request("GET", path, headers=_bearer(key) if key else {})
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        others[type(error).__name__] += 1
        return
    if answer.status == 200:
        took.append((time.perf_counter() - began) * 1000)
    else:
        others[str(answer.status)] += 1


def _quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return round(ordered[int(len(ordered) * part)], 1) if ordered else float("inf")


def attack(port: int, seconds: float, count: int = CONNECTIONS) -> None:
    """Hold so many connections to a server of this machine, each of one of ATTACKS, and make them again when closed."""
    selector = selectors.DefaultSelector()
    live: dict[socket.socket, Attack] = {}
    due: list[tuple[float, int, Attack, socket.socket | None]] = []  # when, in which order, what, with which one
    end = time.monotonic() + seconds

    order = itertools.count()

    def later(attack: Attack, client: socket.socket | None, seconds: float = _AGAIN_S) -> None:
        heapq.heappush(due, (time.monotonic() + seconds, next(order), attack, client))

    def begin(attack: Attack) -> None:
        client = socket.socket()
        if not attack.reads:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        live[client] = attack
        selector.register(client, selectors.EVENT_WRITE)

    def lose(client: socket.socket) -> None:
        later(live.pop(client), None)
        if client in selector.get_map():
            selector.unregister(client)
        client.close()

    def move(client: socket.socket, mask: int) -> None:
        attack = live[client]
        if not mask & selectors.EVENT_WRITE:
            if not client.recv(65536):
                lose(client)
            return
        client.send(attack.first)
        if attack.closes:
            client.shutdown(socket.SHUT_WR)
        if attack.reads:
            selector.modify(client, selectors.EVENT_READ)
        else:
            selector.unregister(client)
        if attack.drip:
            later(attack, client)

    for number in range(count):
        later(ATTACKS[number % len(ATTACKS)], None, 3 * number / count)
    while (now := time.monotonic()) < end:
        while due and due[0][0] <= now:
            _, _, kind, client = heapq.heappop(due)
            if client is None:
                begin(kind)
            elif client in live:
                try:
                    client.send(kind.drip)
                    later(kind, client)
                except BlockingIOError:
                    later(kind, client)
                except OSError:
                    lose(client)
        for key, mask in selector.select(0.05):
            ready = key.fileobj
            if isinstance(ready, socket.socket) and ready in live:
                try:
                    move(ready, mask)
                except OSError:
                    lose(ready)
