"""Documents pushed over REST; `tests/indexer/sources/test_pushed.py` has what becomes of them."""

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from indexer.sources.pushed_store import PushedStore
from rag.access import KeyFile
from rag.jobs.pushes import PushedQueue
from rag.settings import Settings
from tests.web.fakes import FakeDocument, FakeJobs, FakeRetriever, make_hit
from tests.web.test_problems import assert_problem
from web.app import create_app

URL = "/api/v1/documents"
JOBS = "/api/v1/index"
PAGE = {"url": "https://wiki.test/a", "text": "Cats purr."}


def client_for(index: Path, role: str = "write", jobs: FakeJobs | None = None, **more: Any) -> FlaskClient:
    keys = KeyFile(index.parent / "keys.json")
    settings = Settings(index=str(index), keys=str(keys.path), **more)
    client = create_app(FakeRetriever(), settings, jobs, PushedQueue(settings)).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {keys.add(role, role)}"
    return client


@pytest.fixture
def index(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def sender(index):
    return client_for(index)


def test_what_is_accepted_is_on_the_disk(index, sender):
    answer = sender.post(URL, json=PAGE | {"title": "Cats", "metadata": {"team": ["a", "b"]}, "date": "2026-01-31"})
    change = answer.get_json()
    assert (answer.status_code, change["state"], change["action"], change["id"]) == (202, "queued", "put", 1)
    page = PushedStore(index).page("https://wiki.test/a")
    assert page is not None
    assert (page.body, page.content_type, page.charset) == (b"Cats purr.", "text/plain", "utf-8")
    assert page.sender_facts == ("Cats", None, "2026-01-31", (("team", ("a", "b")),), None)
    assert sender.get(answer.headers["Location"]).get_json() == change
    queue = sender.get("/api/v1/changes").get_json()
    assert (queue["queued"], queue["documents"], queue["bytes"], queue["changes"]) == (1, 1, 10, [change])


def test_bytes_with_their_charset(index, sender):
    body = base64.b64encode("<p>Grün".encode("latin-1")).decode()
    fields = {"url": "https://wiki.test?b=c@d", "base64": body, "content_type": "Text/HTML; charset=latin-1"}
    answer = sender.post(URL, json=fields | {"collection": "notes"})
    assert answer.status_code == 202
    assert answer.headers["Location"] == "/api/v1/changes/1?collection=notes"
    page = PushedStore(index / "collections" / "notes").page("https://wiki.test/?b=c@d")
    assert page is not None
    assert (page.body.decode("latin-1"), page.content_type, page.charset) == ("<p>Grün", "text/html", "latin-1")


WRONG = {  # by field: values, each refused with 400 unless it is another status
    "url": (
        None,
        "file:///etc/passwd",
        "javascript://a/%0aalert(1)",
        "https://ann:secret@wiki.test/",
        "https://a.b/#c",
    ),
    "text": (5,),
    "content_type": ("image/png", "application/zip"),  # 415
    "title": ("",),
    "language": ("no language", 5),
    "date": ("yesterday", "2026-02-30"),
    "metadata": ([], {"team": 5}, {"team": []}, {"team": "x" * 257}, {"te\u00adam": "\u00ad"}),
    "collection": ("../x",),
    "source": ("x",),
}


@pytest.mark.parametrize("field", WRONG)
def test_what_cannot_be_used_is_named(index, field):
    sender = client_for(index, max_bytes=100)
    for value in WRONG[field]:
        given = {name: each for name, each in (PAGE | {field: value}).items() if each is not None}
        status = 415 if field == "content_type" else 400
        assert assert_problem(sender.post(URL, json=given), status)["field"] == field
    assert assert_problem(sender.post(URL, json=PAGE | {"text": "x" * 101}), 413)["field"] == "document"
    assert assert_problem(sender.post(URL, json=PAGE | {"base64": "aGk="}), 400)["field"] == "text"
    assert assert_problem(sender.post(URL, json={"url": PAGE["url"], "base64": "no base64"}), 400)["field"] == "base64"
    assert not (index / "pushed").exists()


def test_limits(index, monkeypatch):
    sender = client_for(index)
    monkeypatch.setattr("rag.jobs.pushes.MAX_PUSHED_BYTES", 15)
    assert sender.post(URL, json=PAGE).status_code == 202
    assert "more than 15 bytes" in str(assert_problem(sender.post(URL, json=PAGE | {"url": "https://b.test/"}), 507))
    monkeypatch.setattr("rag.jobs.pushes.MAX_QUEUED", 1)
    answer = sender.post(URL, json=PAGE)
    assert assert_problem(answer, 429)["detail"].startswith("1 changes wait")
    assert answer.headers["Retry-After"] == "2"


def test_a_form_of_another_site_sends_nothing(sender):
    """What a browser sends without asking has one of these types; and the key is never sent by itself."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert sender.post(URL, data=b'{"url": "https://a.test/", "text": "x"}', content_type=kind).status_code == 415


def test_withdrawn_and_unknown(index, sender):
    sender.post(URL, json=PAGE)
    address = {"query_string": {"url": "HTTPS://wiki.test:443/a"}}  # the same, in another spelling
    answer = sender.delete(URL, **address)
    assert (answer.status_code, answer.get_json()["action"]) == (202, "delete")
    assert_problem(sender.delete(URL, **address), 404)
    assert sender.delete(URL).get_json()["field"] == "url"
    assert assert_problem(sender.get("/api/v1/changes/7"), 404)["field"] == "id"
    assert_problem(sender.get("/api/v1/changes/x"), 404)
    assert sender.get("/api/v1/changes?collection=never").get_json()["queued"] == 0
    there = sender.application.extensions
    for pushes, status in ((PushedQueue(replace(there["settings"], store="milvus://db:1/docs")), 409), (None, 501)):
        there["pushes"] = pushes
        assert_problem(sender.post(URL, json=PAGE), status)
        assert_problem(sender.delete(URL, **address), status)


def test_a_hit_leads_to_its_document(client, retriever):
    retriever.hits = [make_hit(1), make_hit(2)]
    hit = client.get("/api/v1/search?q=a").get_json()["hits"][1]
    document = client.get(f"{URL}/{hit['document']}").get_json()
    assert (document["id"], document["generation"]) == (hit["document"], "g1")
    assert document["passages"] == [{name: hit[name] for name in ("id", "url", "section", "text", "blocks")}]
    for id in ("0" * 32, "x", "%00", "é", " "):
        assert assert_problem(client.get(f"{URL}/{id}"), 404)["field"] == "id"


def test_export_is_one_document_a_line(client, retriever):
    retriever.hits = [make_hit(1, title="Ünïcode\u2028"), make_hit(2)]
    response = client.get(URL)
    assert response.content_type == "application/jsonl"
    lines = [json.loads(line) for line in response.data.decode().split("\n")[:-1]]
    assert [line["title"] for line in lines] == ["Ünïcode\u2028", "Partial Indexes"]


def test_exports_are_bounded(client, retriever):
    retriever.hits = [make_hit(rank) for rank in range(1, 4)]
    under_way = [client.get(URL, buffered=False) for _ in range(4)]
    assert client.get(URL).status_code == 503
    under_way[0].close()  # the client has left in the middle
    assert client.get(URL).status_code == 200
    for response in under_way[1:]:
        assert response.data.count(b"\n") == 3


def test_one_export_computes_at_a_time(client, retriever, monkeypatch):
    """The others only send: four that computed held each search for as long as eight without them take."""
    busy, most = [], []

    def documents(collection, filter=None):
        for number in range(20):
            busy.append(number)
            most.append(len(busy))
            threading.Event().wait(0.001)  # lets the other threads run
            busy.pop()
            yield FakeDocument({"number": number, "passages": []})

    monkeypatch.setattr(retriever, "documents", documents)
    with ThreadPoolExecutor(4) as pool:
        lines = list(pool.map(lambda _: client.application.test_client().get(URL).data.count(b"\n"), range(4)))
    assert (lines, max(most)) == ([20] * 4, 1)


# Jobs


def test_start_follow_and_cancel_a_job(index):
    jobs_client = client_for(index, jobs=FakeJobs())
    started = jobs_client.post(JOBS, json={"full": True})
    job = started.get_json()
    assert (started.status_code, job["state"], job["full"]) == (202, "running", True)
    assert started.headers["Location"] == f"{JOBS}/{job['id']}"
    assert jobs_client.get(started.headers["Location"]).get_json() == job
    assert jobs_client.get(JOBS).get_json() == {"jobs": [job]}
    assert jobs_client.post(JOBS, json={}).status_code == 409
    cancelled = jobs_client.delete(f"{JOBS}/{job['id']}")
    assert (cancelled.status_code, cancelled.get_json()["state"]) == (202, "cancelled")
    assert jobs_client.delete(f"{JOBS}/{job['id']}").status_code == 409
    for method in ("GET", "DELETE"):
        response = jobs_client.open(f"{JOBS}/20261121T000000-00000f", method=method)
        assert (response.status_code, response.get_json()["field"]) == (404, "id")
    response = jobs_client.post(JOBS, json={"sources": ["/etc"]})
    assert (response.status_code, response.get_json()["field"]) == (400, "sources")


def test_a_server_without_jobs(sender):
    assert sender.post(JOBS, json={}).status_code == 501
