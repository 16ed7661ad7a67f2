"""The log: what a line says, that it cannot be forged, and what it keeps to itself; and traces, sent to a collector."""

import gzip
import json
import logging
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO

import pytest
from flask import g

from rag.errors import SettingsError
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web import logs
from web.app import create_app
from web.guards.access import Caller


@pytest.fixture
def written():
    """A function that returns the lines of the log, which is JSON."""
    stream, logger = StringIO(), logging.getLogger("pilotlight")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_search_is_one_line(app, written):
    @app.before_request
    def caller() -> None:
        g.caller = Caller("crawler", "read")

    client = app.test_client()
    response = client.get("/api/v1/search?q=secret+words&k=3&mode=dense", headers={"X-Request-Id": "abc-1"})
    assert response.headers["X-Request-Id"] == "abc-1"
    [line] = written()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert isinstance(line.pop("ms"), float)
    request = {"request_id": "abc-1", "method": "GET", "route": "/api/v1/search", "status": 200, "key": "crawler"}
    search = {"collection": "default", "mode": "dense", "k": 3, "hits": 1}
    assert line == {"level": "info", "logger": "pilotlight.request", "message": "request", **request, **search}


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "-a", 'a"b', "é", "a,b"])
def test_an_odd_request_id_is_replaced(client, written, given):
    headers = {"X-Request-Id": given.encode().decode("latin-1")}
    made = client.get("/api/v1/search?q=x", headers=headers).headers["X-Request-Id"]
    assert re.fullmatch("[0-9a-f]{16}", made)
    assert written()[0]["request_id"] == made


def test_probes_are_quiet_until_they_fail_and_a_path_forges_no_line(client, retriever, written):
    for path in ("/livez", "/readyz", "/metrics", "/static/page.css"):
        with client.get(path) as response:
            assert response.status_code == 200
    assert written() == []
    retriever.ready = False
    client.get("/readyz")
    client.get("/a%0a{%22level%22:%22critical%22}")
    assert [(line["route"], line["status"]) for line in written()] == [("/readyz", 503), ("none", 404)]


def test_a_failure_is_found_by_the_request_id(client, retriever, written):
    retriever.error = ValueError("broken")
    made = client.get("/api/v1/search?q=x").headers["X-Request-Id"]
    failure, request = written()
    assert "ValueError: broken" in failure["exception"]
    assert failure["request_id"] == request["request_id"] == made
    assert (request["level"], request["status"]) == ("error", 500)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_server_logs_in_the_format_that_is_set(form):
    code = (
        "import logging, types\nfrom gunicorn.config import Config\nfrom web import logs\n"
        f"logs.configure({form!r})\n"
        "fields = {'query': 'a \"b\"\\nlevel=critical', 'k': 10}\n"
        "logging.getLogger('pilotlight').info('here', extra={'fields': fields})\n"
        "logging.getLogger('other').info('chatter')\n"
        "logs.ServerLogger(Config()).warning('watch out')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    if form == "json":
        assert json.loads(first)["message"] == "here"
        assert json.loads(second)["level"] == "warning"
    else:
        assert first.endswith(r' INFO here query="a \"b\"\nlevel=critical" k=10')
        assert second.endswith(" WARNING watch out")


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP and keeps the spans."""

    def do_POST(self):
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            self.server.services.add(about["service.name"])
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_request_is_a_span_that_does_not_tell_its_query(monkeypatch):
    pytest.importorskip("opentelemetry.instrumentation.flask", reason="the extra otel is not installed")
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    collector.spans, collector.services = [], set()
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
    retriever = FakeRetriever()
    app = create_app(retriever, Settings())
    client = app.test_client()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.get("/api/v1/search?q=secret+words", headers={"traceparent": parent})
    retriever.error = ValueError("broken")
    client.get("/api/v1/search?q=secret", environ_overrides={"REMOTE_ADDR": "203.0.113.9"})
    app.extensions["stop_tracing"]()
    collector.shutdown()
    thread.join()
    collector.server_close()
    answered, failed = collector.spans
    assert answered.name == failed.name == "GET /api/v1/search"
    assert answered.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert answered.parent_span_id.hex() == "b7ad6b7169203331"
    assert (answered.status.code, failed.status.code) == (0, 2)  # 2 is ERROR
    sent = b"".join(span.SerializeToString() for span in collector.spans)
    assert b"secret" not in sent
    assert b"203.0.113.9" not in sent
    assert collector.services == {"pilotlight"}


def test_a_missing_library_is_said_in_one_line(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr(logs, "_TRACING", "opentelemetry_that_is_missing.flask")
    message = r"OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces need pip install 'pilotlight\[otel\]': install it or"
    with pytest.raises(SettingsError, match=message):
        logs.check_tracing()
