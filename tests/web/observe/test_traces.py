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
from web.observe import traces

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
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def attributes(span: Any) -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def test_a_search_is_a_request_a_search_and_its_stages(collector: Collector) -> None:
    app = create_app(FakeRetriever(), Settings())
    answer = app.test_client().get("/api/v1/search?q=secret+words&k=3", headers={"traceparent": PARENT})
    app.extensions["telemetry"].close()
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"GET /api/v1/search", "search", "embed", "dense"}  # the fake's other stages took no time
    request, search = spans["GET /api/v1/search"], spans["search"]
    assert request.trace_id.hex() == search.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert search.parent_span_id == request.span_id
    assert {spans[name].parent_span_id for name in ("embed", "dense")} == {search.span_id}
    assert attributes(request) == {
        "http.request.method": "GET",
        "http.route": "/api/v1/search",
        "http.response.status_code": 200,
        "pilotlight.request_id": answer.headers["X-Request-Id"],
    }
    assert attributes(search) == {
        "pilotlight.mode": "hybrid",
        "pilotlight.collection": "default",
        "pilotlight.generation": "g1",
        "pilotlight.k": 3,
        "pilotlight.hits": 1,
    }
    assert spans["embed"].end_time_unix_nano - spans["embed"].start_time_unix_nano == 2_040_000
    assert spans["dense"].start_time_unix_nano == spans["embed"].end_time_unix_nano
    assert search.end_time_unix_nano - search.start_time_unix_nano == 3_120_000
    assert collector.services == {"pilotlight"}
    assert b"secret" not in b"".join(span.SerializeToString() for span in collector.spans)


def test_a_failure_is_marked_and_begins_a_trace_of_its_own(collector: Collector) -> None:
    retriever = FakeRetriever()
    retriever.error = ValueError("broken")
    app = create_app(retriever, Settings())
    app.test_client().get("/api/v1/search?q=x", headers={"traceparent": "nonsense"})
    app.test_client().get("/nowhere")
    app.extensions["telemetry"].close()
    by_name = {span.name: span for span in collector.spans}
    assert by_name["GET /api/v1/search"].status.code == 2  # ERROR
    assert by_name["GET /api/v1/search"].parent_span_id == b""
    assert by_name["GET none"].status.code == 0  # the client's mistake is not the server's


def test_a_service_may_be_named(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "search-of-docs")
    app = create_app(FakeRetriever(), Settings())
    app.test_client().get("/livez")
    app.extensions["telemetry"].close()
    assert collector.services == {"search-of-docs"}


def test_a_collector_that_is_down_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")  # where nothing listens
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    app = create_app(FakeRetriever(), Settings())
    assert app.test_client().get("/api/v1/search?q=x").status_code == 200
    app.extensions["telemetry"].close()


def test_a_missing_library_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr(traces, "_LIBRARIES", ("opentelemetry_that_is_not_there.sdk",))
    message = r"OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces need pip install 'pilotlight\[otel\]': install it or"
    with pytest.raises(SettingsError, match=message):
        traces.check()


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
