"""The client against the real application, with a retriever whose answers are known."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import rag.client
from indexer.sources.pushed_store import PushedStore
from rag.access import KeyFile
from rag.client import Client
from rag.decoding import decode
from rag.errors import ClientError, FieldError, Refused, Rejected, Unavailable
from rag.jobs.builds import PushedBuilder
from rag.jobs.pushes import PushedQueue
from rag.messages import EmbeddingRequest, Exchange, Push, SearchBatch
from rag.query.request import Filter, SearchRequest
from rag.query.results import Answer
from rag.settings import Settings
from tests.dummy import DummyEmbedder
from tests.endpoint import fake_endpoint
from tests.indexer.server import Reply, Site, send
from tests.web.fakes import WHY, FakeJobs, FakeRetriever, make_hit
from tests.web.running import running
from web.app import create_app


@pytest.fixture
def retriever():
    found = FakeRetriever()
    found.hits = [make_hit(n, highlights=[(0, 1)], text=f"passage {n} \u2028 ü") for n in range(1, 8)]
    return found


@pytest.fixture
def endpoint():
    with fake_endpoint() as found:
        yield found


@pytest.fixture
def client(retriever, endpoint):
    settings = Settings(answer_url=endpoint.url, answer_model="small")
    with running(create_app(retriever, settings)) as url, Client(url) as found:
        yield found


def test_search_gives_what_the_retriever_gave(client, retriever):
    answer = client.search("a", k=3, facets=True)
    assert answer == retriever.search(SearchRequest("a", k=3, facets=True))
    assert answer.hits[0].highlights == [(0, 1)]
    assert client.search("a", explain=True).hits[0].explanation == WHY


def test_every_option_arrives(client, retriever):
    options: dict[str, Any] = {
        "collection": "notes",
        "per_document": 1,
        "expand": "section",
        "offset": 2,
        "facets": True,
        "explain": True,
    }
    fields = {"language": ["en"], "date": {"from": "2026-01-01"}}
    for wanted in (fields, Filter.parse(fields)):
        client.search("a", k=4, mode="lexical", filter=wanted, **options)
        request = SearchRequest("a", k=4, mode="lexical", filter=Filter.parse(fields), **options)
        assert retriever.requests.pop() == request
        client.search(request)
        assert retriever.requests.pop() == request
    client.search("a", filter=None)
    assert retriever.calls == [("a", 10, "hybrid")]


def test_documents(client, retriever):
    documents = list(client.documents())
    assert [document.passages[0].text for document in documents] == [hit.text for hit in retriever.hits]
    assert documents[2] == client.document(retriever.hits[2].document)
    assert documents[2].passages[0].text == "passage 3 \u2028 ü"
    with pytest.raises(Rejected, match="no document") as caught:
        client.document("gone")
    assert caught.value.status == 404
    with pytest.raises(Rejected, match="nothing at this address"):
        client.document("../../../livez")
    with pytest.raises(Rejected, match="no collection"):
        list(client.documents("gone"))


def test_status(client, retriever):
    assert client.status()["generation"] == "g1"
    retriever.ready = False
    with pytest.raises(Unavailable, match="still loading"), Client(client.url, patience=0) as impatient:
        impatient.status()


def test_a_written_answer(client, endpoint, retriever):
    retriever.hits = [make_hit(1), make_hit(2)]
    endpoint.answers("A partial index is built over a subset of a table [1]. ", "Elephants are never grey [9].")
    answer = client.answer("what is a partial index of a table?", k=2)
    assert [hit.rank for hit in answer.hits] == [1, 2]
    assert answer.answer == "A partial index is built over a subset of a table [1]. Elephants are never grey."
    assert [(found.number, found.id) for found in answer.citations] == [(1, "chunk-1")]
    assert answer.finish_reason == "stop"
    history = [{"question": "what is a partial index of a table?", "answer": answer.answer}]
    client.answer("why?", k=2, history=history)
    assert retriever.calls[-1] == ("what is a partial index of a table? why?", 2, "hybrid")
    endpoint.steps = ["half"]
    with pytest.raises(ClientError, match="too early") as caught:
        client.answer("why?")
    assert caught.value.status == 502
    with running(create_app(retriever, Settings())) as url, Client(url) as other:
        with pytest.raises(ClientError, match="set answer_url") as caught:
            other.answer("why?")
        assert caught.value.status == 501
    with pytest.raises(Rejected):
        client.answer("")


def test_keys(retriever, tmp_path):
    settings = Settings(keys=str(tmp_path / "keys.json"))
    key = KeyFile(settings.keys_file).add("reader", "read")
    with running(create_app(retriever, settings)) as url:
        with Client(url, key) as client:
            assert client.search("a").generation == "g1"
            assert key not in repr(client)
            with pytest.raises(Refused, match="has the role read") as caught:
                client.index()
            assert caught.value.status == 403
        for wrong in (None, "pl_wrong"):
            with Client(url, wrong) as client, pytest.raises(Refused) as caught:
                client.search("a")
            assert caught.value.status == 401


def test_jobs(retriever, tmp_path, monkeypatch):
    monkeypatch.setattr(rag.client, "_POLL_S", 0.01)
    settings = Settings(keys=str(tmp_path / "keys.json"))
    key = KeyFile(settings.keys_file).add("builder", "write")
    jobs = FakeJobs()
    with running(create_app(retriever, settings, jobs)) as url, Client(url, key) as client:
        job = client.index(full=True, collection="notes")
        assert (job.state, job.full, job.collection) == ("running", True, "notes")
        with pytest.raises(Unavailable, match="still running after 0 seconds"):
            client.wait(job, timeout=0)
        threading.Timer(0.1, lambda: jobs.jobs[job.id].update(state="done", report={"documents": 3})).start()
        assert client.wait(job, timeout=300).report == {"documents": 3}
        with pytest.raises(Rejected, match="has ended") as caught:
            client.cancel(job.id)
        assert caught.value.status == 409
        assert client.job(job.id).id == job.id
        other = client.index()
        other = client.cancel(other.id)
        with pytest.raises(ClientError, match="is cancelled"):
            client.wait(other)
        with pytest.raises(Rejected, match="no job"):
            client.job("20200101T000000-abc")


def test_no_server():
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unavailable, match="cannot be reached"):
        client.search("a")
    with pytest.raises(ClientError, match="has been closed"):
        client.search("a")


@pytest.mark.parametrize("url", ["127.0.0.1:8642", "ftp://h", "http://", "", "http://h\n/", "http://[::1"])
def test_addresses_that_are_none(url):
    with pytest.raises(ClientError, match="address of the server"):
        Client(url)


def test_the_client_loads_no_model_and_no_index():
    code = "import sys; from rag import Client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "httpx" in loaded
    assert not loaded & {"torch", "faiss", "tantivy", "lxml", "flask", "pydantic", "langchain_core"}


def test_push_wait_and_withdraw(tmp_path):
    settings = Settings(index=str(tmp_path / "index"), keys=str(tmp_path / "keys.json"))
    key = KeyFile(settings.keys_file).add("sender", "write")
    queue = PushedQueue(settings, (sys.executable, "-c", ""))
    builder = PushedBuilder(settings, lambda settings: DummyEmbedder())
    with running(create_app(FakeRetriever(), settings, None, queue)) as url, Client(url, key=key) as client:
        text = client.push("https://wiki.test/a", "Cats purr.", title="Cats", metadata={"team": ["a"]})
        page = client.push(
            "https://wiki.test/b", "<p>Grün".encode("latin-1"), content_type="text/html; charset=latin-1"
        )
        bad = client.push("https://wiki.test/c", b"no PDF", content_type="application/pdf")
        assert (text.id, text.state, text.url) == (1, "queued", "https://wiki.test/a")
        with pytest.raises(Unavailable, match=r"^change 1 is still queued"):
            client.wait(text, 0)
        builder.build(settings.index_dir)
        assert [client.wait(change, 300).state for change in (text, page, bad)] == ["indexed", "indexed", "failed"]
        assert client.change(bad.id).reason
        first = PushedStore(settings.index_dir).page("https://wiki.test/a")
        assert first is not None
        assert first.sender_facts == ("Cats", None, None, (("team", ("a",)),), None)
        gone = client.withdraw("https://wiki.test/b")
        assert gone.id == 4
        builder.build(settings.index_dir)
        assert client.wait(gone, 300).state == "removed"
        with pytest.raises(Rejected, match="no document was pushed") as error:
            client.withdraw("https://wiki.test/b")
        assert error.value.field == "url"
        with pytest.raises(Rejected, match="is not supported"):
            client.push("https://wiki.test/d", b"x", content_type="image/png")
        with pytest.raises(ClientError):
            client.push("file:///etc/passwd", "x")


@pytest.fixture
def scripted():
    """The replies that a server gives in turn, and the server."""
    site, replies = Site(), list[Reply]()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        send(handler, replies.pop(0))

    site.missing = lambda path: reply
    yield replies, site
    site.close()


BUSY = json.dumps({"status": 503, "detail": "too much to do"}).encode()
PROBLEM = {"Content-Type": "application/problem+json"}
FOUND = json.dumps(Answer("a", [], {}, "g1").as_dict()).encode()


def test_a_busy_server_is_asked_again_when_it_says(scripted):
    replies, site = scripted
    for status in (503, 429):
        replies += [Reply(BUSY, status, {**PROBLEM, "Retry-After": "0"}), Reply(FOUND)]
        with Client(site.url) as client:
            assert client.search("a").generation == "g1"
        assert replies == []


@pytest.mark.parametrize("header", [{}, {"Retry-After": "soon"}, {"Retry-After": "3"}])
def test_it_is_not_asked_again_otherwise(scripted, header):
    replies, site = scripted
    replies.append(Reply(BUSY, 503, {**PROBLEM, **header}))
    with Client(site.url, patience=2) as client, pytest.raises(Unavailable, match="too much to do") as caught:
        client.search("a")
    assert caught.value.retry_after == (3 if header.get("Retry-After") == "3" else None)
    assert len(site.hits) == 1


@pytest.mark.parametrize(
    ("status", "headers", "body", "message"),
    [
        (200, {}, b"<html>", "sent an invalid response"),
        (200, {}, b"[]", "is it a Pilotlight server"),
        (200, {}, b'{"hits": [{}]}', "is it a Pilotlight server"),
        (302, {"Location": "http://127.0.0.1:1/"}, b"", "status 302"),
        (500, {}, b'{"detail": "oh"}', "status 500"),
        (500, PROBLEM, b"[]", "status 500"),
        (502, PROBLEM, b'{"detail": 5, "field": 6}', "status 502"),
        (200, {"Content-Length": "100"}, b"{", "cannot be reached"),
    ],
)
def test_a_server_that_is_something_else(scripted, status, headers, body, message):
    replies, site = scripted
    replies.append(Reply(body, status, headers))
    with Client(site.url) as client, pytest.raises(ClientError, match=message):
        client.search("a")


DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [(DOCS / name).read_text(encoding="utf-8") for name in ("programming.md", "sources.md")]
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", "".join(PAGES), re.MULTILINE | re.DOTALL)
KEY = "pl_a-key-that-may-write"
PRINTS = (
    ("client.search(", "1 Partial Indexes Indexes › Partial Indexes https://docs.example/"),
    ("client.push(", ""),
    (
        "import PilotlightRetriever\n\nretriever = PilotlightRetriever(searcher",
        "['https://docs.example/indexes/partial.html#part-1', 'https://",
    ),
    ("openai", ""),
    ("citation.number", "For few rows [2].\n[2] Partial Indexes: https://docs.example/indexes/partial.html#part-2"),
)


@pytest.mark.parametrize(("mark", "printed"), PRINTS)
def test_example(mark, printed, tmp_path, capsys, monkeypatch):
    [example] = [text for text in EXAMPLES if mark in text]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PILOTLIGHT_KEY", KEY)
    retriever = FakeRetriever()
    retriever.hits = [make_hit(1), make_hit(2)]
    retriever.rerank_model = "dummy"
    settings = Settings(keys=str(tmp_path / "keys.json"), anonymous="read")
    KeyFile(settings.keys_file).add("builder", "write", KEY)
    example = example.replace('api_key="none"', f'api_key="{KEY}"')
    with fake_endpoint() as endpoint:
        endpoint.answers("For few rows", " [2].")
        settings = Settings(
            index="index", keys=str(settings.keys_file), anonymous="read", answer_url=endpoint.url, answer_model="small"
        )
        with running(create_app(retriever, settings, FakeJobs(), PushedQueue(settings))) as url:
            exec(compile(example.replace("http://127.0.0.1:8642", url), "documentation", "exec"), {})
    assert printed in capsys.readouterr().out


def test_every_example_is_run():
    assert len(EXAMPLES) == len(PRINTS)


DESCRIBE_ALL = """
import msgspec, rag.messages
found = [kind for kind in vars(rag.messages).values() if isinstance(kind, msgspec.StructMeta)]
assert len(msgspec.json.schema_components(found)[1]) > 40
"""


def test_no_struct_corrupts_memory() -> None:
    """Unions of a text with a pattern and a list do, in msgspec 0.20 to 0.22."""
    environment = os.environ | {"PYTHONMALLOC": "debug"}
    done = subprocess.run([sys.executable, "-c", DESCRIBE_ALL], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[:1000]


@pytest.mark.parametrize(
    ("kind", "fields", "field", "words"),
    [
        (SearchRequest, {}, "query", "query is missing."),
        (
            SearchRequest,
            {"query": " \u2028"},
            "query",
            "query must be text of 1 to 10000 characters with a visible character.",
        ),
        (SearchRequest, {"query": "a" * 10_001}, "query", "query is too long: at most 10000 characters"),
        (SearchRequest, {"query": "a", "mode": "x"}, "mode", "mode must be one of: dense, hybrid, lexical."),
        (SearchRequest, {"query": "a", "facets": 1}, "facets", "facets must be true or false."),
        (SearchRequest, {"query": "a", "b\n": None}, "b\n", "'b\\n' is not a field of this; known fields are: query, "),
        (SearchBatch, {"queries": []}, "queries", "queries must be a list of 1 to 32 items."),
        (EmbeddingRequest, {"input": [""]}, "input[0]", "input[0]: Expected `str` of length >= 1."),
        (EmbeddingRequest, {"input": 3}, "input", "input must be text of 1 to 100000 characters or a list"),
        (Exchange, {"question": "a"}, "answer", "answer is missing."),
        (Push, {"url": "https://a.example/", "access": {"x": 1}}, "access.x", "'access.x' is not a known field."),
        (Push, {"url": "file:///a"}, "url", "url must be text of 1 to 2000 characters that matches the pattern ^[Hh]"),
        (Push, {"url": "https://a.example/", "metadata": {"a": 3}}, "metadata", "metadata: Expected `str | a"),
    ],
)
def test_errors_name_the_field_and_say_what_it_must_be(kind, fields, field, words) -> None:
    with pytest.raises(FieldError) as caught:
        decode(fields, kind, "this")
    assert caught.value.field == field
    assert str(caught.value).startswith(words)
