"""Limits: requests a second, bytes of a body, and seconds of waiting."""

import threading
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client import values

from rag import deadline
from rag.access import KeyFile
from rag.query.request import SearchRequest
from rag.query.results import Answer
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from tests.web.test_problems import assert_problem
from web.app import create_app
from web.guards.limits import MAX_BODY_BYTES, MAX_BUCKETS, MAX_SEARCH_BYTES, SHARED_FOLDER, TokenBuckets, take_slot

SEARCH = "/api/v1/search?q=index"


def make(retriever: FakeRetriever | None = None, **settings: Any) -> FlaskClient:
    return create_app(retriever or FakeRetriever(), replace(Settings(), **settings)).test_client()


# Rates


@pytest.fixture
def buckets(tmp_path):
    return TokenBuckets(10, tmp_path / "buckets")


def test_a_bucket_empties_and_fills(buckets):
    assert [buckets.take("a", now=100.0) for _ in range(20)] == [0.0] * 20  # two seconds' worth at once
    assert buckets.take("a", now=100.0) == pytest.approx(0.1)
    assert [buckets.take("b", now=0.0) for _ in range(19)] == [0.0] * 19  # others have their own
    assert [buckets.take("a", now=200.0) for _ in range(21)] == [0.0] * 20 + [pytest.approx(0.1)]


@pytest.mark.parametrize(("rate", "at_once", "seconds"), [(4, 8, 0.25), (0.5, 1, 2.0), (0.125, 1, 8.0)])
def test_a_token_comes_back_in_time_and_only_once(rate: float, at_once: int, seconds: float) -> None:
    buckets = TokenBuckets(rate, None)
    assert [buckets.take("a", now=64.0) for _ in range(at_once + 1)] == [0.0] * at_once + [seconds]
    assert [buckets.take("a", now=64.0 + seconds) for _ in range(2)] == [0.0, seconds]
    assert buckets.take("a", now=64.0 + 1.5 * seconds) == seconds / 2


def test_no_caller_is_let_in_too_often_while_others_crowd(buckets):
    for turn in range(20):
        assert buckets.take("busy", now=100.0 + turn / 1000) == 0
    for number in range(MAX_BUCKETS // 4):
        assert buckets.take(f"passer-by {number}", now=100.02) == 0
    assert buckets.take("busy", now=100.02) > 0


def test_a_file_of_buckets_is_as_large_as_ever(buckets, tmp_path):
    for number in range(3 * MAX_BUCKETS):
        buckets.take(f"caller {number}" * 50, now=100.0)
    status = (tmp_path / "buckets").stat()
    assert (status.st_size, status.st_mode & 0o777) == (MAX_BUCKETS * 16, 0o600)


def test_workers_share_the_buckets(tmp_path):
    workers = [TokenBuckets(10, tmp_path / "buckets") for _ in range(3)]
    assert [worker.take("a", now=100.0) for _ in range(50) for worker in workers].count(0.0) == 20


def test_too_many_requests(tmp_path):
    file = KeyFile(tmp_path / "keys.json")
    keys = [file.add(name, "read") for name in ("one", "two")]
    client = make(rate_limit=0.01, anonymous="read", keys=str(file.path))
    callers: list[dict[str, Any]] = [{"headers": {"Authorization": f"Bearer {key}"}} for key in keys]
    callers += [
        {"environ_overrides": {"REMOTE_ADDR": address}} for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1")
    ]
    for caller in callers:
        assert client.get(SEARCH, **caller).status_code == 200
        response = client.get(SEARCH, **caller)
        assert_problem(response, 429)
        assert 1 <= int(response.headers["Retry-After"]) <= 100
        assert client.get("/livez", **caller).status_code == 200
    # a key is one caller wherever it is, and what pages show is a caller for each address
    shown = {
        "Origin": "https://a.test",
        "Authorization": f"Bearer {file.add('page', 'read', origins=['https://a.test'])}",
    }
    for headers, status in ((callers[0]["headers"], 429), (shown, 200)):
        for address in ("192.0.2.8", "192.0.2.9"):
            assert client.get(SEARCH, headers=headers, environ_overrides={"REMOTE_ADDR": address}).status_code == status
    # a customer has a whole IPv6 network, and a proxy's word counts only where there is one
    assert client.get(SEARCH, environ_overrides={"REMOTE_ADDR": "2001:db8::ffff:0:0:1"}).status_code == 429
    forged = {"X-Forwarded-For": "198.51.100.1"}
    assert client.get(SEARCH, headers=forged, environ_overrides={"REMOTE_ADDR": "192.0.2.1"}).status_code == 429


def test_workers_count_the_requests_of_a_caller_together(tmp_path, monkeypatch):
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)  # an app of several workers replaces it for good
    assert [make(rate_limit=0.01).get(SEARCH).status_code for _ in range(2)] == [200, 429]


def test_a_request_that_is_a_fraction_of_a_second_early_waits_a_second(monkeypatch):
    monkeypatch.setattr("web.guards.limits.time", SimpleNamespace(monotonic=lambda: 100.0))
    client = make(rate_limit=4)
    *answered, refused = [client.get(SEARCH) for _ in range(9)]
    assert {answer.status_code for answer in answered} == {200}
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")


def test_addresses_behind_a_proxy():
    client = make(rate_limit=0.01, proxies=1)
    for address in ("198.51.100.1", "198.51.100.2:4711", "[2001:db8::1]:80", "::ffff:192.0.2.7", "no address", "none"):
        # only the last is the proxy's own word
        header = {"X-Forwarded-For": f"203.0.113.9, {address}"}
        assert [client.get(SEARCH, headers=header).status_code for _ in range(2)] == [200, 429]
    for same in ("198.51.100.1:1", "198.51.100.2:2", "2001:db8::2", "[2001:db8::3]:99", "192.0.2.7"):
        assert client.get(SEARCH, headers={"X-Forwarded-For": same}).status_code == 429


# Bodies


def test_large_bodies_are_bounded_together_and_leave_room_for_searches():
    """Thirty callers send 2 MiB each, of which a worker takes as many at a time as it has room for."""
    retriever, statuses, arrived, go_on = FakeRetriever(), Counter[int](), threading.Semaphore(0), threading.Event()
    client = make(retriever)
    body = b'{"input": "a"}'.ljust(MAX_BODY_BYTES)

    def embed(*_: Any) -> Any:
        arrived.release()
        assert go_on.wait(300)
        return FakeRetriever.embed(retriever, ["a"])

    def send(**more: Any) -> None:
        reply = client.application.test_client().post("/v1/embeddings", content_type="application/json", **more)
        statuses[reply.status_code] += 1
        arrived.release()

    retriever.embed = embed  # type: ignore[method-assign]
    callers = [threading.Thread(target=send, kwargs={"data": body}) for _ in range(30)]
    for caller in callers:
        caller.start()
    for _ in callers:  # each is in the model, or refused
        assert arrived.acquire(timeout=300)
    search = b'{"query": "a"}'.ljust(MAX_SEARCH_BYTES)
    assert client.post("/api/v1/search", data=search, content_type="application/json").status_code == 200
    go_on.set()
    for caller in callers:
        caller.join(300)
    assert statuses == {200: 16, 503: 14}
    send(data=body)
    assert statuses[200] == 17


def test_a_slot_is_taken_at_once_or_refused():
    full = RuntimeError("full")
    with make().application.app_context():
        free, _ = take_slot("test", 2, full), take_slot("test", 2, full)
        with pytest.raises(RuntimeError, match="full"):
            take_slot("test", 2, full)
        free()
        assert take_slot("test", 2, full)


# Deadlines


class Late(FakeRetriever):
    """Lets the deadline pass in the middle of a search, as a queue does."""

    def search(self, request: SearchRequest, embedded: Any = None, seen: Any = None) -> Answer:
        assert 9 < deadline.remaining() <= 10
        deadline.begin(0)
        deadline.check()
        return super().search(request, embedded)


def test_an_answer_that_comes_too_late_is_none():
    response = make(Late()).get(SEARCH)
    assert "too busy" in str(assert_problem(response, 503)["detail"])
    assert int(response.headers["Retry-After"]) > 0
    assert deadline.remaining() == float("inf")  # it ended with its request
