"""Traces, sent to a collector that is a server of this test."""

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rag.errors import SettingsError
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app
from web.observe import logs

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP and keeps the spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Any] = []
        self.services: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
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

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.instrumentation.flask", reason="the extra otel is not installed")
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_request_is_a_span_that_does_not_tell_its_query(collector: Collector) -> None:
    retriever = FakeRetriever()
    app = create_app(retriever, Settings())
    client = app.test_client()
    client.get("/api/v1/search?q=secret+words", headers={"traceparent": PARENT})
    retriever.error = ValueError("broken")
    client.get("/api/v1/search?q=secret", environ_overrides={"REMOTE_ADDR": "203.0.113.9"})
    app.extensions["stop_tracing"]()
    answered, failed = collector.spans
    assert answered.name == failed.name == "GET /api/v1/search"
    assert answered.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert answered.parent_span_id.hex() == "b7ad6b7169203331"
    assert (answered.status.code, failed.status.code) == (0, 2)  # 2 is ERROR
    sent = b"".join(span.SerializeToString() for span in collector.spans)
    assert b"secret" not in sent
    assert b"203.0.113.9" not in sent
    assert collector.services == {"pilotlight"}


def test_a_service_may_be_named(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "search-of-docs")
    app = create_app(FakeRetriever(), Settings())
    app.test_client().get("/livez")
    app.extensions["stop_tracing"]()
    assert collector.services == {"search-of-docs"}


def test_a_collector_that_is_down_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.instrumentation.flask", reason="the extra otel is not installed")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")  # where nothing listens
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    app = create_app(FakeRetriever(), Settings())
    assert app.test_client().get("/api/v1/search?q=x").status_code == 200
    app.extensions["stop_tracing"]()


def test_a_missing_library_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr(logs, "_TRACING", "opentelemetry_that_is_missing.flask")
    message = r"OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces need pip install 'pilotlight\[otel\]': install it or"
    with pytest.raises(SettingsError, match=message):
        logs.check_tracing()


@pytest.mark.parametrize("environ", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}])
def test_nothing_is_imported_where_nothing_is_traced(environ: dict[str, str]) -> None:
    code = (
        "import sys\nfrom tests.web.fakes import FakeRetriever\n"
        "from rag.settings import Settings\nfrom web.app import create_app\n"
        "client = create_app(FakeRetriever(), Settings()).test_client()\n"
        "assert client.get('/api/v1/search?q=x').status_code == 200\n"
        "print(*(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", code], env=clean | environ, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
