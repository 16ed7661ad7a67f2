import gzip
import logging
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from rag.answer.completion import MOST_BYTES, Finished, complete
from rag.answer.prompt import Endpoint
from rag.errors import EndpointFailed, NotConfigured, SettingsError
from rag.settings import load
from tests.endpoint import DONE, FakeEndpoint, chunk, fake_endpoint, piece
from tests.rag.conftest import wait_for

CHAT = [{"role": "user", "content": "why?"}]
KEY = "sk-a-secret-of-the-operator"


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    with fake_endpoint() as endpoint:
        yield endpoint


def endpoint_of(server: FakeEndpoint, timeout: float = 20) -> Endpoint:
    return replace(
        Endpoint.of(load({"answer_url": server.url, "answer_model": "m", "answer_key": KEY})), timeout=timeout
    )


def test_text_as_it_is_written(server):
    go_on = threading.Event()
    server.answers("It ", "is", go_on, " so.")
    with closing(complete(endpoint_of(server), CHAT)) as pieces:
        assert [next(pieces), next(pieces)] == ["It ", "is"]  # before the rest has been written
        go_on.set()
        assert [found for found in pieces if found is not None] == [" so.", Finished("stop")]
    assert server.requests == [{"model": "m", "messages": CHAT, "stream": True}]
    assert server.headers[0]["path"] == "/v1/chat/completions"
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([b"data: not json\n\n"], "is not a completion"),
        ([b'data: {"choices": [5]}\n\n'], "is not a completion"),
        ([b"data: " + b"[" * 100_000 + b"\n\n"], "is not a completion"),
        ([chunk(choices=[{"delta": {"content": 5}}])], "is not a completion"),
        ([b"\xff\xfe\n\n", b"data: \xff\n\n"], "is not a completion"),
        (["half"], "broke off in the middle"),
        ([], "broke off in the middle"),
        (["half", chunk(error={"message": "overloaded"})], "failed in the middle"),
        (["x" * 2_500_000, "x" * 2_500_000, DONE], "sends without end"),
    ],
)
def test_an_endpoint_that_speaks_something_else(server, steps, message):
    server.steps = steps
    with pytest.raises(EndpointFailed, match=message):
        list(complete(endpoint_of(server), CHAT))


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate, gzip"])
def test_what_is_compressed_is_not_unpacked(server, encoding, status):
    server.encoding, server.status = encoding, status
    server.steps = [gzip.compress(bytes(100_000_000))]  # 97 KB
    tracemalloc.start()
    with pytest.raises(EndpointFailed, match="compresses" if status == 200 else "status 500"):
        list(complete(endpoint_of(server), CHAT))
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_what_nobody_reads_is_bounded(server):
    """An endpoint that writes without end, to a caller that has stopped reading."""
    server.steps = [piece("word " * 100)] * 10_000  # 6 MB
    pieces = complete(endpoint_of(server), CHAT)
    next(pieces)
    tracemalloc.start()
    wait_for(lambda: not any(thread.name == "pilotlight-answer" for thread in threading.enumerate()))
    assert tracemalloc.get_traced_memory()[1] < 2 * MOST_BYTES
    tracemalloc.stop()
    with pytest.raises(EndpointFailed, match="without end"):
        list(pieces)


def test_an_endpoint_that_does_not_stream(server):
    server.content_type = "application/json"
    with pytest.raises(EndpointFailed, match="did not stream"):
        list(complete(endpoint_of(server), CHAT))


def test_a_refusal_is_logged_without_the_key(server, caplog):
    server.status = 401
    server.steps = [f'{{"error": "the key {KEY} is wrong\\n"}}'.encode(), b"x" * 10_000]
    with caplog.at_level(logging.WARNING), pytest.raises(EndpointFailed, match="status 401") as caught:
        list(complete(endpoint_of(server), CHAT))
    assert "is wrong" in caplog.text
    shown = repr(load({"answer_key": KEY}, {})) + repr(endpoint_of(server))
    assert KEY not in caplog.text + str(caught.value) + shown


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, NotConfigured, "set answer_url and answer_model"),
        ({"answer_url": "127.0.0.1:8080"}, SettingsError, "answer_url must be"),
        ({"answer_url": "http://"}, SettingsError, "answer_url must be"),
        ({"answer_url": "http://h/v1"}, SettingsError, "answer_model must name"),
        ({"answer_url": "http://h/v1", "answer_model": "m", "answer_key": "a\nb"}, SettingsError, "answer_key"),
    ],
)
def test_settings_that_cannot_be(settings, error, message):
    with pytest.raises(error, match=message):
        Endpoint.of(load(settings, {}))


@pytest.mark.parametrize("url", ["http://h/v1", "http://h/v1/", " http://h/v1/chat/completions "])
def test_addresses_that_people_write(url):
    assert Endpoint.of(load({"answer_url": url, "answer_model": "m"}, {})).url == "http://h/v1/chat/completions"
