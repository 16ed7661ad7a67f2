"""The real gunicorn around a fake retriever, in a process of its own."""

import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port
from tests.waiting import wait_for
from web.dispatch import SEARCH_THREADS
from web.server import MAX_ACCEPTS, Worker

DEADLINE_S = 300.0
POST = b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
ROOT = Path(__file__).parents[2]


def spawn(port: int, folder: Path, *options: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.web.serve_fake", *map(str, (port, folder, *options))]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Running:
    """A server; its options are the number of workers and the deadline in seconds."""

    def __init__(self, folder: Path, *options: int) -> None:
        self.folder = folder
        self.port = free_port()
        self.process = spawn(self.port, folder, *options)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=DEADLINE_S, trust_env=False)
        try:
            wait_for(self._answers)
        except BaseException:
            self.kill()
            raise

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        try:
            return self.http.get("/livez").status_code == 200
        except httpx.TransportError:
            return False

    def make_ready(self) -> None:
        (self.folder / "go").touch()
        # each worker of the two becomes ready by itself; a new connection each time reaches both
        wait_for(lambda: all(self.on_its_own_connection("/readyz").is_success for _ in range(8)))

    def on_its_own_connection(self, path: str) -> httpx.Response:
        """Answer to a GET whose connection ends with it, so that the next one makes another."""
        return self.http.get(path, headers={"Connection": "close"})

    def waiting(self) -> int:
        """How many searches wait for the file `go-on`."""
        return len(list(self.folder.glob("waiting-*")))

    def workers(self) -> list[int]:
        master = self.process.pid
        return [int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text().split()]

    def raw(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as connection:
            connection.sendall(request)
            answer = b""
            while received := connection.recv(65536):
                answer += received
        return answer

    def stop(self) -> tuple[int, str]:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            _, errors = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode, errors

    def kill(self) -> None:
        """End a server that has failed a test, or it would fail the next one too."""
        self.http.close()
        if self.process.poll() is None:
            for pid in (self.process.pid, *self.workers()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def running(tmp_path):
    server = Running(tmp_path)
    yield server
    server.kill()


def test_life_of_a_server(running):
    assert running.http.get("/readyz").status_code == 503
    assert running.http.get("/api/v1/search?q=index").status_code == 503
    running.make_ready()
    parts = iter([b'{"que', b'ry": "index"}'])  # in chunks
    answer = running.http.post("/api/v1/search", content=parts, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["hits"][0]["title"] == "Partial Indexes"

    (running.folder / "closed").unlink(missing_ok=True)
    status, errors = running.stop()
    assert (status, errors) == (0, "")
    assert (running.folder / "closed").exists()


def test_no_thread_holds_stop_signals_back(running):
    """A process that it starts, such as a job, would inherit that, and could not be stopped."""
    running.make_ready()

    def holds_back() -> bool:
        masks = [
            int(line.split()[1], 16)
            for worker in running.workers()
            for path in Path(f"/proc/{worker}/task").glob("*/status")
            for line in path.read_text().splitlines()
            if line.startswith("SigBlk:")
        ]
        assert len(masks) > 2 * SEARCH_THREADS
        return any(mask >> (number - 1) & 1 for mask in masks for number in (signal.SIGINT, signal.SIGTERM))

    wait_for(lambda: not holds_back())  # the C library blocks all signals while it starts a thread
    assert running.stop() == (0, "")


def test_no_header_has_an_address_read_as_another(running):
    """A proxy that lets everybody reach /public and passes on SCRIPT_NAME would else let them reach everything."""
    for headers in ({}, {"SCRIPT_NAME": "/public"}, {"SCRIPT_NAME": "/elsewhere"}, {"PATH_INFO": "/livez"}):
        assert running.http.get("/public/livez", headers=headers).status_code == 404


def test_a_request_under_way_is_finished_after_sigterm(running):
    running.make_ready()
    answers: list[httpx.Response] = []
    client = threading.Thread(target=lambda: answers.append(running.http.get("/api/v1/search?q=wait")))
    client.start()
    wait_for(running.waiting)
    running.process.send_signal(signal.SIGTERM)
    wait_for((running.folder / "closed").exists)  # the idle worker has gone
    (running.folder / "go-on").touch()
    client.join(DEADLINE_S)
    assert [answer.status_code for answer in answers] == [200]
    assert running.stop()[0] == 0


def test_a_worker_that_hangs_costs_the_other_no_connection(running):
    # the one that answers soon has more connections than the one that does not
    hung = running.workers()[0]
    os.kill(hung, signal.SIGSTOP)
    try:
        clients = [http.client.HTTPConnection("127.0.0.1", running.port, timeout=DEADLINE_S) for _ in range(8)]
        for client in clients:
            client.request("GET", "/livez")
        assert [client.getresponse().status for client in clients] == [200] * 8
    finally:
        os.kill(hung, signal.SIGCONT)
    for client in clients:
        client.close()
    assert running.stop()[0] == 0


def test_connections_that_ask_on_and_on_share_few_threads(tmp_path):
    server = Running(tmp_path, 1, 1)  # 17 threads, each of which stays with a connection that asks at once
    asks = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        clients = [stack.enter_context(socket.create_connection(address, timeout=DEADLINE_S)) for _ in range(24)]
        for client in clients:
            client.sendall(asks * 30)
        assert server.on_its_own_connection("/livez").status_code == 200
        for client in clients:
            answers = b""
            while answers.count(b'{"live":true}') < 30:
                received = client.recv(65536)
                assert received, answers
                answers += received
            assert answers.count(b"HTTP/1.1 200 OK") == 30
    assert server.stop() == (0, "")


def test_clients_that_do_not_close_hold_up_nobody(shared):
    with ExitStack() as stack:
        for _ in range(40):  # the server closes each, and must not wait for the client in the thread that accepts
            client = stack.enter_context(socket.create_connection(("127.0.0.1", shared.port), timeout=DEADLINE_S))
            client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        for _ in range(4):
            assert shared.on_its_own_connection("/livez").status_code == 200


def test_taken_port_is_one_line_and_exit_2(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = spawn(port, tmp_path)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert errors == f"pilotlight: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: br, chunked\r\n\r\n", 501),
        (CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n", 400),
        (CHUNKED + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 20 + b"0\r\n\r\n", 413),
        (POST + b"Content-Length: 999999\r\n\r\n{}", 413),
        (b"GET /api/v1/search?q=\xff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
    ],
)
def test_bad_requests_get_problems_from_the_server_too(shared, request_bytes, status):
    if status == 501 and find_spec("gunicorn_h1c"):
        status = 400  # of the parser in C
    head, _, body = shared.raw(request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Type: application/problem+json" in head
    assert json.loads(body)["status"] == status
    assert shared.http.get("/livez").status_code == 200


HOST = b"Host: localhost\r\n"
HOSTS = {"of a stranger": b"Host: evil.example\r\n", "of us": HOST, "of us and a port": b"Host: localhost:8642\r\n"}


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
@pytest.mark.parametrize(
    "path", ["//api/v1/search?q=a", "/api//v1/search?q=a", "/static//page.css", "//evil.example/..%2f"]
)
def test_no_redirect_names_what_a_client_said(shared, host, path):
    answer = shared.raw(b"GET " + path.encode() + b" HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    assert answer.split(b" ")[1] in (b"200", b"403", b"404")
    assert b"location:" not in answer.lower()
    assert b"evil.example" not in answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /api/v1/search?q=index HTTP/1.0\r\n\r\n", b"403"),
        (b"GET /api/v1/search?q=index HTTP/1.0\r\nHost: \r\n\r\n", b"403"),
        (b"GET /api/v1/search?q=index HTTP/1.0\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET /api/v1/search?q=index HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", b"200"),
        (
            b"GET http://127.0.0.1/api/v1/search?q=index HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
            b"403",
        ),
        (b"GET /livez HTTP/1.0\r\n\r\n", b"200"),  # as some load balancers ask
    ],
)
def test_a_request_that_does_not_name_this_machine(shared, sent, status):
    assert shared.raw(sent).split(b" ")[1] == status


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    server = Running(tmp_path_factory.mktemp("server"))
    server.make_ready()
    yield server
    status, errors = server.stop()
    assert status == 0, errors


def test_a_worker_that_is_starting_is_not_interrupted():
    """An exception in a start counts as a failure, and gives the server another exit code."""
    worker = Worker.__new__(Worker)
    worker.alive, worker.booted = True, False
    worker.handle_quit(signal.SIGQUIT, None)
    assert not worker.alive


def test_connections_that_wait_are_accepted_together_and_a_single_one_is_left_to_others(monkeypatch):
    """A pause before each of them kept probes waiting behind all others."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    worker = Worker.__new__(Worker)
    worker.nr_conns, worker.cfg, worker.pending_conns, worker.poller = 20, None, deque(), selectors.DefaultSelector()
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as clients:
        listener.setblocking(False)
        for _ in range(MAX_ACCEPTS + 1):
            clients.enter_context(socket.create_connection(listener.getsockname()))
        worker.accept(listener)
        assert (worker.nr_conns, pauses) == (20 + MAX_ACCEPTS, [])
        worker.accept(listener)
        assert (worker.nr_conns, len(pauses)) == (21 + MAX_ACCEPTS, 1)
        worker.accept(listener)  # another worker has it
        assert worker.nr_conns == len(worker.pending_conns) + 20
        for connection in worker.pending_conns:
            connection.close()
    worker.poller.close()
