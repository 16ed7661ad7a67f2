"""Errors, all of one shape, and as a page for a reader's browser."""

import errno
import logging
import re
import sqlite3
from typing import Any

import pytest
from werkzeug.test import TestResponse

from rag.errors import NotReady, QueryError
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app
from web.openapi import operations

MCP = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'

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


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), sqlite3.OperationalError("database or disk is full")]
)
def test_no_error_of_a_store_is_a_failure_of_the_program(error, caplog):
    """Each method of the retriever, the jobs and the queue of pushed documents raises it, behind every route."""

    class Broken(FakeRetriever):
        def __getattribute__(self, name: str) -> Any:
            if name in ("status", "within", "_check", "close") or name.startswith("__"):
                return super().__getattribute__(name)
            raise error

    broken: Any = Broken()
    app = create_app(broken, Settings(), broken, broken)
    client = app.test_client()
    body = {"query": "a", "input": "a", "documents": ["a"], "url": "https://a.example/", "text": "a", "queries": []}
    answered = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("web.guards.access._check_role", lambda who, role: None)
        patch.setattr("web.api.documents.may_write", lambda collection: True)
        for rule, method, described in operations(app):
            if described.operator:
                continue
            path = re.sub("<[^>]*>", "0" * 32, rule.rule)
            fields = {name: body[name] for name in _fields(described.body) & body.keys()}
            query = {"q": "a", "url": "https://a.example/"} if method in ("GET", "DELETE") else {}
            query = {name: query[name] for name in _fields(described.query) & query.keys()}
            if "query" in _fields(described.query):
                query["q"] = "a"
            response = client.open(path, method=method, query_string=query, json=fields if method == "POST" else None)
            assert response.status_code != 500, (path, response.text)
            if response.status_code == 503:
                assert response.headers["Retry-After"]
                answered.add(path)
    assert {"/api/v1/changes", "/api/v1/documents", "/api/v1/index", "/api/v1/search"} <= answered, answered


def _fields(kind: Any) -> set[str]:
    return {*getattr(getattr(kind, "__origin__", kind), "__struct_fields__", ())}


HEADERS = """Accept Accept-Encoding Accept-Language Access-Control-Request-Method Authorization Content-Encoding
Content-Length Content-Type Cookie Forwarded Host If-Modified-Since If-None-Match If-Range Mcp-Method Mcp-Name
Mcp-Param-X Mcp-Protocol-Version Mcp-Session-Id Origin Range Referer Sec-Fetch-Site Transfer-Encoding User-Agent
X-Forwarded-For X-Forwarded-Groups X-Forwarded-Host X-Forwarded-Prefix X-Forwarded-Proto X-Forwarded-User
X-Pilotlight-Typing X-Request-Id""".split()
VALUES = ("é", "\xff\xfe", "\x00", "9" * 400, "http://[::1", "Thu, 01 Jan 9999999999 00:00:00 GMT")
MORE_VALUES = (" ", ",", ";q=é", "-1", "a\tb", "[::1", "Basic é", "Bearer \xff", "bytes=é-")


def test_no_bytes_of_a_header_are_an_error_of_the_server(retriever, tmp_path):
    config = tmp_path / "pilotlight.toml"
    config.write_text("[[access]]\neverybody = true\neverything = true\n")
    users = {"user_header": "X-Forwarded-User", "user_proxies": "127.0.0.1", "rules": str(config)}
    for settings in (Settings(proxies=1), Settings(**users)):
        app = create_app(retriever, settings)
        client = app.test_client()
        routes = [
            ("/static/page.css", "GET"),
            ("/embed.js", "GET"),
            *((rule.rule, method) for rule, method, _ in operations(app)),
        ]
        for route, method in routes if settings.proxies else [("/api/v1/search", "GET")]:
            is_plain = route in ("/api/v1/search", "/mcp", "/")
            for name in HEADERS:
                for value in VALUES + MORE_VALUES * is_plain:
                    variable = name.upper().replace("-", "_")
                    variable = variable if variable in ("CONTENT_LENGTH", "CONTENT_TYPE") else f"HTTP_{variable}"
                    environ = {"CONTENT_TYPE": "application/json", variable: value}
                    data = MCP if route == "/mcp" else b"{}"
                    path = re.sub("<[^>]*>", "0" * 32, route)
                    with client.open(path, method=method, environ_overrides=environ, data=data) as response:
                        assert response.status_code not in (500, 502), (path, environ, response.text)


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
