"""Hostile clients of Debian's nginx with the configuration of `scripts/deploy`, and the server behind it."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from rag.access import KeyFile
from tests.ports import free_port
from tests.waiting import wait_for
from tests.web.running import NEEDS_NGINX, nginx
from tests.web.test_server import DEADLINE_S, ROOT, Running

pytestmark = NEEDS_NGINX
HOSTILE = 2000
QUEUE = 64
HOST = b"Host: localhost\r\n"
LINE = b"POST /api/v1/search HTTP/1.1\r\n" + HOST
POST = LINE + b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def get(path: str) -> bytes:
    return b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n"


class Proxied(Running):
    """A server behind nginx: `http` and `connect` go through it, `raw` does not."""

    key = ""

    def __init__(self, folder: Path) -> None:
        self.key = KeyFile(folder / "keys.json").add("reader", "read")
        super().__init__(folder, 1, QUEUE)
        self.make_ready()
        self.proxy_port = free_port()
        self.proxy = httpx.Client(
            base_url=f"http://127.0.0.1:{self.proxy_port}",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=DEADLINE_S,
            trust_env=False,
        )

    def connect(self, address: str = "127.0.0.2", *, window: int = 0) -> socket.socket:
        client = socket.socket()
        if window:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        client.settimeout(DEADLINE_S)
        client.bind((address, 0))
        client.connect(("127.0.0.1", self.proxy_port))
        return client

    def answers_everybody(self) -> None:
        for _ in range(10):
            assert self.proxy.get("/livez", headers={"Connection": "close"}).status_code == 200
            assert self.proxy.post("/api/v1/search", json={"query": "index"}).status_code == 200
        assert self.proxy.get("/static/page.css").status_code == 200

    def requests(self) -> float:
        """How many requests the server has answered, but those for this figure."""
        lines = self.http.get("/metrics", headers={"Authorization": f"Bearer {self.key}"}).text.splitlines()
        counts = [line for line in lines if line.startswith("pilotlight_http_requests_total") and "metrics" not in line]
        return sum(float(line.split()[-1]) for line in counts)


def configuration(server: Proxied, folder: Path) -> Path:
    """Write the configuration that is shipped with ports and folders of the test, and without TLS."""
    text = (ROOT / "scripts" / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    replaced = {
        r"user www-data;": "daemon off;",
        r"/run/nginx.pid": f"{folder}/nginx.pid",
        r"/var/log/nginx": f"{folder}",
        r"127\.0\.0\.1:8642": f"127.0.0.1:{server.port}",
        r"listen \[::\].*\n": "",
        r"listen 80 default_server": f"listen 127.0.0.1:{free_port()}",
        r"listen 443 ssl http2": f"listen 127.0.0.1:{server.proxy_port}",
        r"ssl_certificate.*\n": "",
        r"server_tokens off;": "server_tokens off;"
        + "".join(f" {kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
    }
    for pattern, text_of_test in replaced.items():
        text, count = re.subn(pattern, text_of_test, text)
        assert count, pattern
    path = folder / "nginx.conf"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROXIES", "1")
        made = Proxied(tmp_path_factory.mktemp("server"))
    path = configuration(made, tmp_path_factory.mktemp("nginx"))
    with nginx(path, lambda: made.proxy.get("/livez").is_success):
        yield made
    made.proxy.close()
    assert made.stop() == (0, "")


# name: what is sent. A new attack is a new row. Some of these nginx passes on, in a plain form.
FRAMINGS = {
    "length of 19 digits": LINE + b"Content-Length: 1000000000000000000\r\n\r\n",
    "length of 400 digits": LINE + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n",
    "length twice": LINE + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
    "lengths that differ": LINE + b"Content-Length: 5\r\ncontent-length: 6\r\n\r\n",
    "list of lengths": LINE + b"Content-Length: 5, 5\r\n\r\n",
    "length with a sign": LINE + b"Content-Length: +5\r\n\r\n",
    "length in hexadecimal": LINE + b"Content-Length: 0x5\r\n\r\n",
    "length of nothing": LINE + b"Content-Length: \r\n\r\n",
    "length in other digits": LINE + b"Content-Length: \xb2\r\n\r\n",
    "identity, chunked": LINE + b"Transfer-Encoding: identity, chunked\r\n\r\n",
    "gzip, chunked": LINE + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "chunked, identity": LINE + b"Transfer-Encoding: chunked, identity\r\n\r\n",
    "chunked, chunked": LINE + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
    "gzip": LINE + b"Transfer-Encoding: gzip\r\n\r\n",
    "coding in quotes": LINE + b'Transfer-Encoding: "chunked"\r\n\r\n',
    "coding behind a vertical tab": LINE + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
    "chunked twice": LINE + CHUNKED + CHUNKED + b"\r\n",
    "chunks and a length": LINE + CHUNKED + b"Content-Length: 5\r\n\r\n",
    "chunks in HTTP/1.0": LINE.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n",
    "space before the colon": LINE + b"Content-Length : 5\r\n\r\n",
    "folded": LINE + b"X: a\r\n Content-Length: 5\r\n\r\n",
    "first field folded": LINE.replace(b"Host", b" Host") + b"Content-Length: 5\r\n\r\n",
    "line feed alone": LINE + b"X: a\nContent-Length: 5\r\n\r\n",
    "carriage return alone": LINE + b"X: a\rContent-Length: 5\r\n\r\n",
    "NUL": LINE + b"X: a\0\r\nContent-Length: 5\r\n\r\n",
    "field without a colon": LINE + b"Content-Length\r\n\r\n",
    "field without a name": LINE + b": 5\r\n\r\n",
    "no host": LINE.replace(HOST, b"") + b"Content-Length: 5\r\n\r\n",
    "two hosts": LINE + b"Host: example.org\r\nContent-Length: 5\r\n\r\n",
    "empty lines": b"\r\n\r\n" + LINE + b"Content-Length: 5\r\n\r\n",
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "version that does not exist": LINE.replace(b"1.1", b"1.2") + b"Content-Length: 5\r\n\r\n",
    "no version": LINE.replace(b" HTTP/1.1", b"") + b"Content-Length: 5\r\n\r\n",
    "chunk with a sign": LINE + CHUNKED + b"\r\n+5\r\n",
    "chunk with a prefix": LINE + CHUNKED + b"\r\n0x5\r\n",
    "chunk of 9 digits": LINE + CHUNKED + b"\r\n000000005\r\n",
    "large chunk announced": LINE + CHUNKED + b"\r\nFFFFFFFF\r\n",
    "chunk longer than it says": LINE + CHUNKED + b"\r\n2\r\n{}}}",
    "line feed in an extension": LINE + CHUNKED + b"\r\n2;a=\nb\r\n{}\r\n",
    "extension without end": LINE + CHUNKED + b"\r\n2;" + b"a" * 300,
    "extension that is none": LINE + CHUNKED + b"\r\n2;=\r\n{}\r\n0\r\n\r\n",
    "length in the trailers": LINE + CHUNKED + b"\r\n0\r\nContent-Length: 5\r\n\r\n",
    "trailers that are none": LINE + CHUNKED + b"\r\n0\r\nHello\r\n\r\n",
    "unknown expectation": LINE + b"Expect: a miracle\r\nContent-Length: 2\r\n\r\n{}",
    "long address": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "long header": LINE + b"X: " + b"a" * 9000 + b"\r\n\r\n",
    "large body": LINE + b"Content-Length: 99999999\r\n\r\n",
}


@pytest.mark.parametrize("sent", FRAMINGS.values(), ids=FRAMINGS)
def test_nothing_hides_in_a_request(server: Proxied, sent: bytes) -> None:
    """The server answers no request that nginx has not seen, and keyless requests get nothing of the index."""
    before = server.requests()
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(8)]
        for client in clients:
            client.sendall(sent + LAST)
            client.settimeout(1)  # nginx may wait for the rest of a body
        answers = b"".join(map(everything, clients))
    seen = answers.count(b"X-Request-Id: ")
    assert server.requests() - before == seen
    assert b'"hits"' not in answers
    server.answers_everybody()


def everything(client: socket.socket) -> bytes:
    answer = b""
    try:
        while received := client.recv(65536):
            answer += received
    except (ConnectionResetError, TimeoutError):  # nginx closes with bytes unread
        pass
    return answer


# name: what a client sends before it stops
SENDERS = {
    "nothing": b"",
    "half a line": b"GET /api/v1/search?q=in",
    "half a head": POST + b"X: ",
    "no body": POST + b"Content-Length: 20\r\n\r\n",
    "a body that is asked for": POST + b"Content-Length: 20\r\nExpect: 100-continue\r\n\r\n",
    "half a body": POST + b"Content-Length: 20\r\n\r\n{",
    "half a chunk": POST + CHUNKED + b"\r\n5\r\n0\r\n\r\n",
    "half the trailers": POST + CHUNKED + b"\r\n0\r\nX: ",
    "half a probe": b"GET /livez HTTP/1.1\r\nHost: local",
    "a body of a probe": b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
}
# name: what a client sends again and again without reading an answer
READERS = {
    "static files": get("/static/page.css") * 400,
    "the page": get("/?q=index&k=100") * 100,
    "the description": get("/openapi.json") * 100,
    "refusals": get("/api/v1/search?q=") * 1000,
    "probes": get("/livez") * 1000,
}


@pytest.mark.parametrize("sent", [*SENDERS.values(), *READERS.values()], ids=[*SENDERS, *READERS])
def test_clients_that_stop_sending_or_reading_hold_no_thread(server: Proxied, sent: bytes) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect(window=4096)) for _ in range(2 * QUEUE)]
        threads = [threading.Thread(target=push, args=(client, sent)) for client in clients]
        for thread in threads:
            thread.start()
        server.answers_everybody()
        for client in clients:
            client.close()
        for thread in threads:
            thread.join(DEADLINE_S)


def push(client: socket.socket, sent: bytes) -> None:
    try:
        client.sendall(sent)
    except OSError:  # the test is over
        return


def test_two_thousand_hostile_connections(server: Proxied) -> None:
    kinds = [*SENDERS.values(), get("/api/v1/search?q=a"), get("/") * 20, b"\0" * 100, *list(FRAMINGS.values())[:20]]
    with ExitStack() as stack:
        for number in range(HOSTILE):
            client = stack.enter_context(server.connect(f"127.0.1.{number % 200 + 1}", window=4096))
            try:
                client.sendall(kinds[number % len(kinds)])
            except ConnectionError:  # nginx has had enough of it
                continue
            if number % 500 == 499:
                server.answers_everybody()
        server.answers_everybody()
    server.answers_everybody()


def test_one_address_does_not_take_all_connections(server: Proxied) -> None:
    with ExitStack() as stack:
        for _ in range(32):
            stack.enter_context(server.connect("127.0.0.9")).sendall(POST + b"Content-Length: 20\r\n\r\n")
        with server.connect("127.0.0.9") as client:
            wait_for(lambda: status_of(client, POST + b"Content-Length: 2\r\n\r\n{}") == b"429")
        server.answers_everybody()


def status_of(client: socket.socket, sent: bytes) -> bytes:
    client.sendall(sent)
    return client.recv(65536).split(b" ")[1]


def test_an_export_arrives_whole_at_a_client_that_reads_slowly(server: Proxied) -> None:
    request = b"GET /api/v1/documents?collection=large HTTP/1.0\r\n" + HOST
    with server.connect(window=4096) as client:
        client.sendall(request + f"Authorization: Bearer {server.key}\r\n\r\n".encode())
        answer = everything(client)
        lines = [line for line in answer.split(b"\n") if line.startswith(b'{"generation"')]
    assert [json.loads(line)["title"] for line in lines] == [f"Page {number}" for number in range(3000)]


def test_clients_cannot_name_their_address_or_prefix(server: Proxied) -> None:
    """Wrong keys of one address are soon refused with 429, whatever addresses the client claims to have."""
    statuses: list[int] = []
    for number in range(40):
        claims = {"X-Forwarded-For": f"192.0.2.{number}", "X-Forwarded-Prefix": "/evil"}
        answer = server.proxy.get("/api/v1/search?q=a", headers=claims | {"Authorization": f"Bearer {number:032}"})
        statuses.append(answer.status_code)
    assert statuses[:10] == [401] * 10
    assert 429 in statuses
    server.answers_everybody()  # a right key is always looked at
    assert "/evil" not in server.proxy.get("/").text


def test_strangers_do_not_take_the_queue(server: Proxied) -> None:
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            with server.connect() as client:
                client.sendall(get("/api/v1/search?q=a"))
                client.recv(100)

    crowd = [threading.Thread(target=flood) for _ in range(16)]
    for each in crowd:
        each.start()
    statuses = [server.proxy.get("/api/v1/search?q=index").status_code for _ in range(100)]
    stop.set()
    for each in crowd:
        each.join(DEADLINE_S)
    assert statuses == [200] * 100


def test_a_thousand_clients_are_answered_or_told_when_to_come_back(server: Proxied) -> None:
    """Each sends one search at the same time, 50 of them from each address; who is refused is answered later."""
    request = f"GET /api/v1/search?q=a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\n"
    request += "Connection: close\r\n\r\n"

    def answers(number: int) -> list[tuple[int, str]]:
        with ExitStack() as opened:
            clients = [opened.enter_context(server.connect(f"127.0.1.{1 + n % 20}")) for n in range(number)]
            for client in clients:
                client.sendall(request.encode())
            heads = [client.makefile("rb").read().partition(b"\r\n\r\n")[0].decode() for client in clients]
        seconds = [re.search(r"^Retry-After: (\d+)", head, re.IGNORECASE | re.MULTILINE) for head in heads]
        return [(int(head.split()[1]), found[1] if found else "") for head, found in zip(heads, seconds, strict=True)]

    first = answers(1000)
    assert {status for status, _ in first} <= {200, 429, 503}
    refused = [seconds for status, seconds in first if status != 200]
    assert all(seconds.isdecimal() and 1 <= int(seconds) <= 10 for seconds in refused), refused[:5]
    assert len(refused) <= 400, "nginx holds 32 of each address, and the server refuses none of these"
    threading.Event().wait(max(map(int, refused), default=0))
    assert {status for status, _ in answers(20)} == {200}
