"""What people ask, as its operator sees it."""

import csv
import io
import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from rag.access import Grant, KeyFile
from rag.settings import Settings
from tests.web.api.test_search import Kept, searched
from tests.web.fakes import FakeRetriever
from web.app import create_app

REPORT = {
    "new": {"count": 3, "examples": []},
    "changed": {"count": 2, "examples": []},
    "gone": {"count": 1, "examples": []},
    "unchanged": 1164,
    "embedded": 70,
    "carried": 13332,
    "skipped": [{"reason": "no text", "count": 15, "examples": []}],
    "failed": [{"url": "javascript:alert(1)", "reason": "<b>no</b>"}] * 12,
    "seconds": {"total": 61.2, "publish": 0.1, "embed": 40.0, "fetch": 20.0},
}


def describe(report: dict[str, Any]) -> Any:
    return lambda collection: {
        "generation": "g1",
        "created_at": "2026-11-21T05:06:07+00:00",
        "documents": 1170,
        "chunks": 13402,
        "sources": ["https://docs.example/", "/srv/docs"],
        "report": report,
    }


def text_of(client: FlaskClient, path: str = "/status") -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", client.get(path).text))


def test_it_says_what_is_served_and_what_the_last_build_did(client, retriever):
    retriever.describe = describe(REPORT)
    text = text_of(client)
    for words in (
        "Ready",
        "documents 1,170",
        "built 2026-11-21 05:06 UTC",
        "Generation g1",
        "Sources docs.example docs",
        "Model all-MiniLM-L6-v2",
        "new 3 changed 2 gone 1 unchanged 1,164",
        "took 61.2 s; 70 passages were embedded, 13,332 reused",
        "15 No text.",
        "javascript:alert(1): &lt;b&gt;no&lt;/b&gt;",
        "and 2 more",
    ):
        assert words in text, words
    assert 'href="javascript' not in client.get("/status").text


PATHS = ("/insights", "/api/v1/insights.csv")


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def operator(tmp_path, keys):
    """A client with the operator's key, of a server that was asked some questions."""
    key = keys.add("operator", "write")
    kept = Kept(tmp_path, keys=str(keys.path), anonymous="read")
    for query in ("<b>bold</b>", "=1+1", "index", "Index?"):
        searched(kept.client, query)
    kept.retriever.hits = []
    searched(kept.client, "nothing & nobody")
    kept.recorder.close()
    client = kept.app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {key}"
    return client


def test_the_page(operator):
    page = operator.get("/insights")
    assert page.status_code == 200
    assert "&lt;b&gt;bold&lt;/b&gt;" in page.text
    assert "<b>bold" not in page.text
    assert "nothing &amp; nobody" in page.text
    assert 'href="/?q=nothing+%26+nobody"' in page.text
    assert "no hit 1" in page.text
    assert "There were no searches" in operator.get("/insights?collection=notes&days=1").text


def test_tables(operator):
    reply = operator.get("/api/v1/insights.csv?table=unanswered")
    assert reply.mimetype == "text/csv"
    assert [row["question"] for row in csv.DictReader(io.StringIO(reply.text))] == ["nothing & nobody"]
    assert "'=1+1" in operator.get("/api/v1/insights.csv").text


@pytest.mark.parametrize("query", ["days=0", "days=x", "table=users", "more=1", "collection="])
def test_what_cannot_be_shown_is_refused(operator, query):
    assert operator.get(f"/api/v1/insights.csv?{query}").status_code == (200 if query == "collection=" else 400)


@pytest.mark.parametrize("path", PATHS)
def test_only_for_operators(operator, keys, path):
    anyone = operator.application.test_client()
    assert anyone.get(path).status_code == 401
    reader, scoped = (keys.add("reader", "read"), keys.add("scoped", "write", grant=Grant(frozenset({"default"}))))
    for key in (reader, scoped):
        assert anyone.get(path, headers={"Authorization": f"Bearer {key}"}).status_code == 403
    asked_again = anyone.get("/insights", auth=("x", reader), headers={"Accept": "text/html"})
    assert asked_again.status_code == 401
    assert asked_again.headers["WWW-Authenticate"].startswith("Basic")


def test_a_server_that_keeps_nothing_says_so(tmp_path, keys):
    key = keys.add("operator", "write")
    client = create_app(FakeRetriever(), Settings(index=str(tmp_path), keys=str(keys.path))).test_client()
    for path in PATHS:
        assert client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code == 501
