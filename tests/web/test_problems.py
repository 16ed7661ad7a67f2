"""Errors, all of one shape, and as a page for a reader's browser."""

import logging

import pytest
from werkzeug.test import TestResponse

from rag.errors import NotReady, QueryError

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def assert_problem(response: TestResponse, status: int) -> dict[str, object]:
    assert (response.status_code, response.mimetype) == (status, "application/problem+json")
    body = response.get_json()
    assert set(body) - {"field", "message", "error"} == {"type", "title", "status", "detail"}
    assert body.get("error", {"message": body["detail"]})["message"] == body["detail"]
    assert (body["type"], body["status"]) == ("about:blank", status)
    assert all(isinstance(body[name], str) and body[name] for name in ("title", "detail"))
    assert "\n" not in body["detail"]
    assert "Content-Security-Policy" in response.headers
    return body


@pytest.mark.parametrize("path", ["/api", "/api/v1/nope", "/static/nope.js", "/static/a%00b"])
def test_machine_routes_never_answer_with_a_page(client, path):
    assert_problem(client.get(path, headers={"Accept": "text/html"}), 404)
    assert_problem(client.get("/%ff%fe"), 404)


def test_errors_of_the_retriever(client, retriever):
    retriever.error = QueryError("the query has no token")
    assert assert_problem(client.get("/api/v1/search?q=a"), 400)["detail"] == "the query has no token"
    retriever.error = NotReady("no index in ./index: run pilotlight index")
    response = client.get("/api/v1/search?q=a")
    assert assert_problem(response, 503)["detail"] == "no index in ./index: run pilotlight index"
    assert int(response.headers["Retry-After"]) > 0


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_unexpected_error_is_logged_and_kept_private(client, retriever, caplog, accept):
    retriever.error = RuntimeError("secret in /srv/private")
    path = "/" if accept == "text/html" else "/api/v1/search"
    with caplog.at_level(logging.ERROR):
        response = client.get(path + "?q=a", headers={"Accept": accept})
    assert response.status_code == 500
    assert not any(word in response.text for word in ("secret", "Traceback"))
    assert "secret in /srv/private" in caplog.text


def test_browsers_see_a_designed_page(client, retriever):
    missing = client.get("/nope", headers=BROWSER)
    assert (missing.status_code, missing.mimetype) == (404, "text/html")
    assert "Nothing here" in missing.text
    retriever.error = QueryError("the query has no token")
    bad = client.get("/?q=<b>", headers=BROWSER)
    assert (bad.status_code, bad.mimetype) == (400, "text/html")
    assert "The query has no token." in bad.text
    assert 'value="&lt;b&gt;"' in bad.text
    assert client.delete("/", headers=BROWSER).headers["Allow"]
    doubled = client.get("//")
    assert (doubled.status_code, doubled.headers["Location"]) == (308, "http://localhost/")


def test_probes_follow_the_retriever(client, retriever):
    retriever.ready = False
    assert client.get("/livez").status_code == 200
    assert assert_problem(client.get("/readyz"), 503)["detail"] == retriever.reason
    retriever.ready = True
    ready = client.get("/readyz")
    assert (ready.status_code, ready.get_json()) == (200, retriever.status())
    client.application.extensions["draining"].set()
    assert "shutting down" in assert_problem(client.get("/readyz"), 503)["detail"]
