"""Requests whose end can be read in two ways, or that never come to it: refused by the loop, without a thread."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from gunicorn.config import Config
from gunicorn.http import RequestParser
from gunicorn.http import errors as http_errors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.server.test_server import DEADLINE_S, Running
from web.server.exchange import Exchange
from web.server.receive_buffer import ReceiveBuffer, Verdict
from web.server.send_buffer import SendBuffer

QUEUE = 64
MANY = 40  # more than there are threads
LINE = b"POST /api/v1/search HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
NEXT = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

# name: what is sent, and the status it is refused with. A new attack is a new row.
FRAMINGS = {
    "length of 19 digits": (LINE + HOST + b"Content-Length: 1000000000000000000\r\n\r\n", 413),
    "length of 400 digits": (LINE + HOST + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n", 413),
    "length twice": (LINE + HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400),
    "lengths that differ": (LINE + HOST + b"Content-Length: 5\r\ncontent-length: 6\r\n\r\n", 400),
    "list of lengths": (LINE + HOST + b"Content-Length: 5, 5\r\n\r\n", 400),
    "length with a sign": (LINE + HOST + b"Content-Length: +5\r\n\r\n", 400),
    "length in hexadecimal": (LINE + HOST + b"Content-Length: 0x5\r\n\r\n", 400),
    "length of nothing": (LINE + HOST + b"Content-Length: \r\n\r\n", 400),
    "length in other digits": (LINE + HOST + b"Content-Length: \xb2\r\n\r\n", 400),
    "identity, chunked": (LINE + HOST + b"Transfer-Encoding: identity, chunked\r\n\r\n", 501),
    "gzip, chunked": (LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
    "chunked, identity": (LINE + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n", 501),
    "chunked, chunked": (LINE + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
    "gzip": (LINE + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    "coding in quotes": (LINE + HOST + b'Transfer-Encoding: "chunked"\r\n\r\n', 501),
    "coding behind a vertical tab": (LINE + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n", 501),
    "chunked twice": (LINE + HOST + CHUNKED + CHUNKED + b"\r\n", 400),
    "chunks and a length": (LINE + HOST + CHUNKED + b"Content-Length: 5\r\n\r\n", 400),
    "chunks in HTTP/1.0": (b"POST /api/v1/search HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n", 400),
    "space before the colon": (LINE + HOST + b"Content-Length : 5\r\n\r\n", 400),
    "folded": (LINE + HOST + b"X: a\r\n Content-Length: 5\r\n\r\n", 400),
    "first field folded": (LINE + b" " + HOST + b"Content-Length: 5\r\n\r\n", 400),
    "line feed alone": (LINE + HOST + b"X: a\nContent-Length: 5\r\n\r\n", 400),
    "carriage return alone": (LINE + HOST + b"X: a\rContent-Length: 5\r\n\r\n", 400),
    "NUL": (LINE + HOST + b"X: a\0\r\nContent-Length: 5\r\n\r\n", 400),
    "field without a colon": (LINE + HOST + b"Content-Length\r\n\r\n", 400),
    "field without a name": (LINE + HOST + b": 5\r\n\r\n", 400),
    "no host": (LINE + b"Content-Length: 5\r\n\r\n", 400),
    "two hosts": (LINE + HOST + b"Host: example.org\r\nContent-Length: 5\r\n\r\n", 400),
    "empty lines": (b"\r\n\r\n" + LINE + HOST + b"Content-Length: 5\r\n\r\n", 400),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "version that is not there": (b"POST /api/v1/search HTTP/1.2\r\n" + HOST + b"Content-Length: 5\r\n\r\n", 400),
    "no version": (b"POST /api/v1/search\r\n" + HOST + b"Content-Length: 5\r\n\r\n", 400),
    "chunk with a sign": (LINE + HOST + CHUNKED + b"\r\n+5\r\n", 400),
    "chunk with a prefix": (LINE + HOST + CHUNKED + b"\r\n0x5\r\n", 400),
    "chunk of 9 digits": (LINE + HOST + CHUNKED + b"\r\n000000005\r\n", 400),
    "chunk that is announced": (LINE + HOST + CHUNKED + b"\r\nFFFFFFFF\r\n", 413),
    "chunk longer than it says": (LINE + HOST + CHUNKED + b"\r\n2\r\n{}}}", 400),
    "line feed in an extension": (LINE + HOST + CHUNKED + b"\r\n2;a=\nb\r\n{}\r\n", 400),
    "extension without end": (LINE + HOST + CHUNKED + b"\r\n2;" + b"a" * 300, 400),
    "extension that is none": (LINE + HOST + CHUNKED + b"\r\n2;=\r\n{}\r\n0\r\n\r\n", 400),
    "length in the trailers": (LINE + HOST + CHUNKED + b"\r\n0\r\nContent-Length: 5\r\n\r\n", 400),
    "trailers that are none": (LINE + HOST + CHUNKED + b"\r\n0\r\nHello\r\n\r\n", 400),
    "unknown expectation": (LINE + HOST + b"Expect: a miracle\r\nContent-Length: 2\r\n\r\n{}", 417),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("server"), 1, QUEUE)
    server.make_ready()
    yield server
    assert server.stop() == (0, "")


def connect(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)


def everything(client: socket.socket) -> bytes:
    answer = b""
    while received := client.recv(65536):
        answer += received
    return answer


@pytest.mark.parametrize(("sent", "status"), FRAMINGS.values(), ids=FRAMINGS)
def test_framing_that_is_not_plain_is_refused_and_holds_nobody(running: Running, sent: bytes, status: int) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(running)) for _ in range(MANY)]
        for client in clients:
            client.sendall(sent)
        for client in clients:
            answer = everything(client)  # which ends, though the body never comes
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"application/problem+json" in answer
        assert running.http.post("/api/v1/search", json={"query": "index"}).status_code == 200


@pytest.mark.parametrize(("sent", "status"), FRAMINGS.values(), ids=FRAMINGS)
def test_nothing_behind_a_refused_request_is_answered(running: Running, sent: bytes, status: int) -> None:
    with connect(running) as client:
        client.sendall(sent + NEXT + NEXT)
        assert everything(client).count(b"HTTP/1.1 ") == 1


def test_requests_behind_each_other_are_answered_in_order(running: Running) -> None:
    chunked = LINE + HOST + b"Content-Type: application/json\r\n" + CHUNKED
    with connect(running) as client:
        client.sendall(
            NEXT
            + chunked
            + b'\r\n11;a=b\r\n{"query":"first"}\r\n0\r\nX: y\r\n\r\n'
            + b"\r\n"  # which some clients send behind a body
            + NEXT.replace(b"livez", b"nowhere")
            + NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        answer = everything(client)
    statuses = [part.split(b" ")[1] for part in answer.split(b"HTTP/1.1")[1:]]
    assert statuses == [b"200", b"200", b"404", b"200"]


def test_a_request_that_is_cut_short_is_never_waited_for() -> None:
    """Whatever the loop would hand over: a thread sees these bytes, and then an end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        for sent in (LINE + HOST + b"Content-Le", LINE + HOST + CHUNKED + b"\r\n5\r\nab"):
            exchange = Exchange(sent, time.monotonic(), SendBuffer(ours), has_body=True)
            exchange.begin(lambda *_: pytest.fail("asked"), Config(), ("127.0.0.1", 1), ("127.0.0.1", 2), last=False)
            assert exchange.ended
            assert not exchange.keeps
            exchange.to_send.flush()
            assert theirs.recv(65536).startswith(b"HTTP/1.1 400 ")


# Fuzzing: what the loop takes for a whole request is that, and no more, to gunicorn too.

PIECES = [
    b"GET / HTTP/1.1\r\n",
    LINE,
    HOST,
    CHUNKED,
    b"POST / HTTP/1.0\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 2\r\n",
    b"Content-Length:\t05 \r\n",
    b"content-length: 0\r\n",
    b"Transfer-Encoding: CHUNKED \r\n",
    b"TRANSFER-ENCODING:chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"X: \xff\x85\xa0\r\n",
    b"X-Forwarded-Proto: https\r\n",
    b"Content_Length: 5\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b"2;a=b\r\n{}\r\n",
    b"000\r\nX: y\r\n\r\n",
    b"hello",
    b"{}",
    b"\r",
    b"\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b"5\r\n",
    b"A\r\n0123456789\r\n",
    b"\x0b",
]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=14).map(b"".join)
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "500"))
CONFIG = Config()


def test_spaces_within_a_value_cost_no_more_than_other_characters() -> None:
    """The loop reads all heads, so what takes long for one holds up everybody: these took a minute."""
    value = b"a" + b" " * 60_000 + b"b"
    received = ReceiveBuffer()
    assert received.feed(LINE + HOST + b"Authorization: \t" + value + b" \t\r\n\r\n") is Verdict.COMPLETE
    assert received.authorization == value


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    start=st.sampled_from([b"", LINE + HOST, LINE + HOST + CHUNKED, LINE + HOST + b"Content-Length: 5\r\n"]), rest=BYTES
)
def test_both_readers_of_a_request_find_the_same_end(start: bytes, rest: bytes) -> None:
    sent = start + rest
    buffer = ReceiveBuffer()
    if buffer.feed(sent) is not Verdict.COMPLETE:
        return
    assert 0 < buffer.end <= len(buffer.buffer)
    stepwise = ReceiveBuffer()
    verdicts = [stepwise.feed(bytes([byte])) for byte in sent]
    assert next(each for each in verdicts if each is not Verdict.PARTIAL) is Verdict.COMPLETE
    parser = RequestParser(CONFIG, iter([bytes(buffer.buffer[: buffer.end])]), ("127.0.0.1", 1))
    try:
        request = next(parser)
        request.body.read()
    except (http_errors.ParseException, StopIteration):
        return  # which is answered, and the connection closed
    assert parser.unreader.take_buffered() == b""  # nothing that could pass for another request
    one_less = bytes(buffer.buffer[: buffer.end - 1])
    with pytest.raises((http_errors.ParseException, http_errors.NoMoreData)):
        read_whole(one_less, buffer.end - buffer.head_end)


def read_whole(sent: bytes, length: int) -> None:
    body = next(RequestParser(CONFIG, iter([sent]), ("127.0.0.1", 1))).body.read()
    if len(body) < length:
        raise http_errors.NoMoreData
