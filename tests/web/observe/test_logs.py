"""The log: what a line says, that it cannot be forged, and what it keeps to itself."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO

import pytest
from flask import Flask, g
from flask.testing import FlaskClient

from tests.web.fakes import FakeRetriever
from web.guards.scoped_retriever import Caller
from web.observe import logs


@pytest.fixture
def written() -> Iterator[StringIO]:
    """What goes to the log as JSON."""
    stream, logger = StringIO(), logging.getLogger("pilotlight")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def lines(written: StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_search_is_one_line(client: FlaskClient, written: StringIO) -> None:
    response = client.get("/api/v1/search?q=secret+words&k=3&mode=dense", headers={"X-Request-Id": "abc-1"})
    assert response.headers["X-Request-Id"] == "abc-1"
    [line] = lines(written)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", str(line.pop("time")))
    assert isinstance(line.pop("ms"), float)
    assert line == {
        "level": "info",
        "logger": "pilotlight.request",
        "message": "request",
        "request_id": "abc-1",
        "method": "GET",
        "route": "/api/v1/search",
        "status": 200,
        "collection": "default",
        "mode": "dense",
        "k": 3,
        "hits": 1,
    }
    assert "secret" not in written.getvalue()


def test_the_name_of_the_key_is_logged(app: Flask, written: StringIO) -> None:
    @app.before_request
    def caller() -> None:
        g.caller = Caller("crawler", "read")

    app.test_client().get("/api/v1/search?q=x")
    assert lines(written)[0]["key"] == "crawler"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "-a", 'a"b', "é", "a,b"])
def test_an_odd_request_id_is_replaced(client: FlaskClient, written: StringIO, given: str) -> None:
    headers = {"X-Request-Id": given.encode().decode("latin-1")}
    made = client.get("/api/v1/search?q=x", headers=headers).headers["X-Request-Id"]
    assert re.fullmatch("[0-9a-f]{16}", made)
    assert lines(written)[0]["request_id"] == made


def test_probes_are_quiet_until_they_fail(client: FlaskClient, retriever: FakeRetriever, written: StringIO) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/static/page.css"):
        with client.get(path) as response:
            assert response.status_code == 200
    assert lines(written) == []
    retriever.ready = False
    client.get("/readyz")
    assert [(line["route"], line["status"]) for line in lines(written)] == [("/readyz", 503)]


def test_a_failure_is_found_by_the_request_id(client: FlaskClient, retriever: FakeRetriever, written: StringIO) -> None:
    retriever.error = ValueError("broken")
    made = client.get("/api/v1/search?q=x").headers["X-Request-Id"]
    failure, request = lines(written)
    assert "ValueError: broken" in str(failure["exception"])
    assert failure["request_id"] == request["request_id"] == made
    assert (request["level"], request["status"]) == ("error", 500)


def test_a_path_cannot_forge_a_line(client: FlaskClient, written: StringIO) -> None:
    client.get("/a%0a{%22level%22:%22critical%22}")
    [line] = lines(written)
    assert (line["route"], line["status"]) == ("none", 404)


def test_text_quotes_what_is_not_plain() -> None:
    record = logging.LogRecord("pilotlight.request", logging.INFO, "", 0, "request", None, None)
    record.fields = {"route": "/api/v1/search", "query": 'a "b"\nlevel=critical', "k": 10}
    text = logs.TextFormatter().format(record)
    assert text.endswith(r' INFO request route=/api/v1/search query="a \"b\"\nlevel=critical" k=10')


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_server_logs_in_the_format_that_is_set(form: str) -> None:
    code = (
        "import logging, types\nfrom gunicorn.config import Config\nfrom web.observe import logs\n"
        f"logs.configure({form!r})\n"
        "logging.getLogger('pilotlight').info('listening on %s', 'here')\n"
        "logging.getLogger('other').info('chatter')\n"
        "logs.ServerLogger(Config()).warning('watch out')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    if form == "json":
        assert json.loads(first)["message"] == "listening on here"
        assert json.loads(second)["level"] == "warning"
    else:
        assert first.endswith(" INFO listening on here")
        assert second.endswith(" WARNING watch out")
