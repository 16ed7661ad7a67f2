import logging

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from rag.errors import NotReady, QueryError
from tests.web.fakes import FakeRetriever

PROBLEM = "application/problem+json"


def assert_problem(response: TestResponse, status: int) -> dict[str, object]:
    assert response.status_code == status
    assert response.mimetype == PROBLEM
    body = response.get_json()
    assert set(body) - {"field", "message", "error"} == {"type", "title", "status", "detail"}
    assert body.get("error", {"message": body["detail"]})["message"] == body["detail"]
    assert body["type"] == "about:blank"
    assert body["status"] == status
    assert all(isinstance(body[name], str) and body[name] for name in ("title", "detail"))
    assert "\n" not in body["detail"]
    assert "Content-Security-Policy" in response.headers
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize("path", ["/nope", "/api", "/api/v1/nope", "/static/nope.js", "/static/a%00b", "/%ff%fe"])
def test_unknown_route(client: FlaskClient, path: str) -> None:
    assert_problem(client.get(path), 404)


@pytest.mark.parametrize("path", ["/api/v1/search", "/api/v1/nope", "/static/nope.js"])
def test_machine_routes_never_answer_with_a_page(client: FlaskClient, path: str) -> None:
    response = client.get(path, headers={"Accept": "text/html"})
    assert response.mimetype == PROBLEM


def test_errors_of_the_retriever(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.error = QueryError("the query has no token")
    assert assert_problem(client.get("/api/v1/search?q=a"), 400)["detail"] == "the query has no token"
    retriever.error = NotReady("no index in ./index: run pilotlight index")
    response = client.get("/api/v1/search?q=a")
    assert assert_problem(response, 503)["detail"] == "no index in ./index: run pilotlight index"
    assert int(response.headers["Retry-After"]) > 0


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_unexpected_error_is_logged_and_kept_private(
    client: FlaskClient, retriever: FakeRetriever, caplog: pytest.LogCaptureFixture, accept: str
) -> None:
    retriever.error = RuntimeError("secret in /srv/private")
    path = "/" if accept == "text/html" else "/api/v1/search"
    with caplog.at_level(logging.ERROR):
        response = client.get(path + "?q=a", headers={"Accept": accept})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert "secret in /srv/private" in caplog.text


def test_doubled_slashes_redirect(client: FlaskClient) -> None:
    response = client.get("//")
    assert (response.status_code, response.headers["Location"]) == (308, "http://localhost/")


def test_browsers_see_a_designed_page(client: FlaskClient, retriever: FakeRetriever) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    missing = client.get("/nope", headers=browser)
    assert (missing.status_code, missing.mimetype) == (404, "text/html")
    assert "Nothing here" in missing.text
    retriever.error = QueryError("the query has no token")
    bad = client.get("/?q=<b>", headers=browser)
    assert (bad.status_code, bad.mimetype) == (400, "text/html")
    assert "The query has no token." in bad.text
    assert 'value="&lt;b&gt;"' in bad.text
    assert client.delete("/", headers=browser).headers["Allow"]
