"""Clients that send slowly, do not read, come in crowds or show no key: they cost themselves, and nobody else."""

import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from rag.serving.api_keys import KeyFile
from tests.web.server.test_server import DEADLINE_S, Running, until
from web.server.admission import THREADS
from web.server.listeners import most_connections

QUEUE = 128
FEW = 8
HOST = b"Host: localhost\r\n"
POST = b"POST /api/v1/search HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"


def get(path: str) -> bytes:
    return b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all that must leave it as it was; in the end it has written no line."""
    server = Running(tmp_path_factory.mktemp("running"), 1, QUEUE)
    server.make_ready()
    yield server
    (server.folder / "go-on").touch()
    assert server.stop() == (0, "")


def connect(server: Running, address: str = "127.0.0.1", *, window: int = 0) -> socket.socket:
    client = socket.socket()
    if window:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    client.settimeout(DEADLINE_S)
    client.bind((address, 0))
    client.connect(("127.0.0.1", server.port))
    return client


def is_open(client: socket.socket) -> bool:
    """Whether the server still has the connection: nothing has come of it, or answers, but no end."""
    client.setblocking(False)
    try:
        while data := client.recv(65536):
            assert data
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    return False


def everybody_is_answered(server: Running, headers: dict[str, str] | None = None) -> None:
    for _ in range(20):
        assert server.on_its_own_connection("/livez").status_code == 200
    for _ in range(5):
        assert server.http.post("/api/v1/search", json={"query": "index"}, headers=headers).status_code == 200
    assert server.http.get("/static/page.css").status_code == 200


def refused(server: Running, reason: str) -> float:
    text = server.http.get("/metrics").text
    lines = [line for line in text.splitlines() if f'requests_refused_total{{reason="{reason}"}}' in line]
    return float(lines[0].split()[-1]) if lines else 0.0


# name: how many, and what each sends without ever reading an answer. A new attack is a new row.
READERS = {
    "what pages are made of": (8, get("/static/page.css") * 400),
    "searches": (80, get("/api/v1/search?q=index&k=100") * 400),
    "the page itself": (80, get("/?q=index&k=100") * 100),
    "the description": (80, get("/openapi.json") * 100),
    "refusals": (80, get("/api/v1/search?q=") * 1000),
}


@pytest.mark.parametrize(("count", "sent"), READERS.values(), ids=READERS)
def test_clients_that_do_not_read_hold_no_thread(running: Running, count: int, sent: bytes) -> None:
    before = refused(running, "slow")
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(running, window=4096)) for _ in range(count)]
        threads = [threading.Thread(target=push, args=(client, sent)) for client in clients]
        for thread in threads:
            thread.start()
        everybody_is_answered(running)
        assert refused(running, "slow") == before  # they have not been given up yet, so it was not that
        for client in clients:
            client.close()
        for thread in threads:
            thread.join(DEADLINE_S)


def push(client: socket.socket, sent: bytes) -> None:
    try:
        client.sendall(sent)
    except OSError:  # the test is over
        return


# name: what a client sends before it stops
SENDERS = {
    "nothing": b"",
    "half a line": b"GET /api/v1/search?q=in",
    "half a head": POST + b"X: ",
    "no body": POST + b"Content-Length: 20\r\n\r\n",
    "a body that is asked for": POST + b"Content-Length: 20\r\nExpect: 100-continue\r\n\r\n",
    "half a body": POST + b"Content-Length: 20\r\n\r\n{",
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n",
    "half the trailers": POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    "half a probe": b"GET /livez HTTP/1.1\r\nHost: local",
    "a body of a probe": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
}


@pytest.mark.parametrize("sent", SENDERS.values(), ids=SENDERS)
@pytest.mark.parametrize("closes", [False, True], ids=["open", "half-closed"])
def test_clients_that_stop_sending_hold_no_thread(running: Running, sent: bytes, closes: bool) -> None:
    before = refused(running, "slow")
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(running)) for _ in range(3 * THREADS)]
        for client in clients:
            client.sendall(sent)
            if closes:
                client.shutdown(socket.SHUT_WR)
        everybody_is_answered(running)
        assert refused(running, "slow") == before
        assert all(is_open(client) for client in clients) is not closes


def test_clients_that_are_too_slow_are_let_go(running: Running) -> None:
    before = refused(running, "slow")
    with ExitStack() as stack:
        reader = stack.enter_context(connect(running, window=4096))
        thread = threading.Thread(target=push, args=(reader, get("/openapi.json") * 100))
        thread.start()
        sender = stack.enter_context(connect(running))
        sender.sendall(b"GET /livez HTTP/1.1\r\nHo")
        assert sender.recv(100).startswith(b"HTTP/1.1 408 ")
        until(lambda: refused(running, "slow") == before + 2)
        thread.join(DEADLINE_S)


def test_an_export_goes_on_as_its_client_reads(running: Running) -> None:
    """More than is made ahead, in small steps: every line arrives, and in order."""
    with connect(running, window=4096) as client:
        client.sendall(get("/api/v1/documents?collection=large") + get("/livez"))
        answer = b""
        while not answer.endswith(b'{"live":true}\n') and (data := client.recv(1000)):
            answer += data
    lines = [json.loads(line) for line in answer.split(b"\r\n") if line.startswith(b'{"generation"')]
    assert [line["title"] for line in lines] == [f"Page {number}" for number in range(3000)]


def test_a_crowd_of_one_address_leaves_room_for_others(running: Running) -> None:
    most = most_connections(1000) // 2
    with ExitStack() as stack:
        other = stack.enter_context(connect(running, "127.0.0.3"))
        crowd = [stack.enter_context(connect(running, "127.0.0.2")) for _ in range(most + 20)]
        everybody_is_answered(running)
        assert [is_open(client) for client in crowd] == [False] * 20 + [True] * most  # its own oldest gave way
        assert is_open(other)


def files_of(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def test_without_descriptors_the_oldest_give_way_and_the_log_stays_short(tmp_path: Path) -> None:
    server = Running(tmp_path, 1, QUEUE)
    server.make_ready()
    worker = server.workers()[0]
    most = files_of(worker) + 10
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        crowd = [stack.enter_context(connect(server)) for _ in range(200)]
        everybody_is_answered(server)
        assert [is_open(client) for client in crowd].count(True) <= 10
    status, said = server.stop()
    assert status == 0
    lines = said.splitlines()
    assert len(lines) == 1, lines
    assert "no room for a connection: [Errno 24] Too many open files" in lines[0]


def test_without_any_descriptor_at_all_it_waits(tmp_path: Path) -> None:
    """All connections are being answered, so none can give way."""
    server = Running(tmp_path, 1, QUEUE)
    server.make_ready()
    worker = server.workers()[0]
    with ExitStack() as stack:
        for _ in range(FEW):
            stack.enter_context(connect(server)).sendall(get("/api/v1/search?q=wait"))
        until(lambda: server.waiting() == FEW)
        probe = stack.enter_context(connect(server))
        until(lambda: files_of(worker) > 0 and is_open(probe))
        most = files_of(worker)
        before = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (most, before[1]))
        probe.close()
        crowd = [stack.enter_context(connect(server)) for _ in range(100)]
        began = cpu_ticks(worker)
        until(lambda: not is_open(crowd[0]) or not is_open(crowd[1]))
        assert cpu_ticks(worker) - began < 5 * os.sysconf("SC_CLK_TCK")
        resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
        (tmp_path / "go-on").touch()
        everybody_is_answered(server)
    status, said = server.stop()
    assert status == 0
    assert len(said.splitlines()) <= 1


def cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# Strangers


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("keyed")
    key = KeyFile(folder / "keys.json").add("reader", "read")
    server = Running(folder, 1, FEW)
    server.make_ready()
    yield server, {"Authorization": f"Bearer {key}"}
    assert server.stop() == (0, "")


STRANGERS = {
    "no key, and a body that never comes": POST + b"Content-Length: 20\r\n\r\n",
    "no key, and chunks that never come": POST + b"Transfer-Encoding: chunked\r\n\r\n",
    "a wrong key": POST + b"Authorization: Bearer wrong-key-of-good-length\r\nContent-Length: 20\r\n\r\n",
    "two keys": POST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Length: 20\r\n\r\n",
    "no page": POST.replace(b"search", b"nowhere") + b"Content-Length: 20\r\n\r\n",
}


@pytest.mark.parametrize("sent", STRANGERS.values(), ids=STRANGERS)
def test_strangers_are_refused_without_their_bodies(keyed: tuple[Running, dict[str, str]], sent: bytes) -> None:
    server, headers = keyed
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(464)]
        for client in clients:
            client.sendall(sent)
        everybody_is_answered(server, headers)
        said = {status_of(client) for client in clients}
    assert said <= {b"400", b"401", b"404", b"429", b"503"}
    assert not said <= {b"503"}


def status_of(client: socket.socket) -> bytes:
    answer = b""
    while data := client.recv(65536):
        answer += data
    return answer.split(b" ")[1]


def test_wrong_keys_are_soon_not_looked_at(keyed: tuple[Running, dict[str, str]]) -> None:
    server, headers = keyed
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.5")  # of which the server knows nothing bad yet
    with httpx.Client(base_url=server.http.base_url, transport=elsewhere) as client:
        wrong = [client.get("/api/v1/search?q=a", headers={"Authorization": f"Bearer {n:032}"}) for n in range(40)]
    statuses = [answer.status_code for answer in wrong]
    assert statuses[:10] == [401] * 10
    assert 429 in statuses
    late = next(answer for answer in wrong if answer.status_code == 429)
    assert int(late.headers["Retry-After"]) >= 1
    assert late.headers["Content-Type"] == "application/problem+json"
    assert server.http.get("/api/v1/search?q=index", headers=headers).status_code == 200  # a right one always is


def test_strangers_do_not_take_the_queue(keyed: tuple[Running, dict[str, str]]) -> None:
    server, headers = keyed
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            with connect(server) as client:
                client.sendall(get("/api/v1/search?q=a"))
                client.recv(100)

    crowd = [threading.Thread(target=flood) for _ in range(2 * FEW)]
    for each in crowd:
        each.start()
    statuses = [server.http.get("/api/v1/search?q=index", headers=headers).status_code for _ in range(100)]
    stop.set()
    for each in crowd:
        each.join(DEADLINE_S)
    assert statuses == [200] * 100
