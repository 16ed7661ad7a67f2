"""What people ask, as its operator sees it."""

import csv
import io

import pytest

from rag.serving.api_keys import KeyFile
from rag.serving.scope import Scope
from rag.settings import Settings
from tests.web.api.test_feedback import Kept, searched
from tests.web.fakes import FakeRetriever
from web.app import create_app

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
    assert "Nothing was asked" in operator.get("/insights?collection=notes&days=1").text


def test_tables(operator):
    assert len(operator.get("/api/v1/insights.csv?days=7&table=days").text.splitlines()) == 8
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
    reader, scoped = keys.add("reader", "read"), keys.add("scoped", "write", scope=Scope.of(["default"]))
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
