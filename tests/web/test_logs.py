"""The log, traces and metrics: what a line says, that it cannot be forged, what stays private, and what is counted."""

import gzip
import json
import logging
import os
import re
import signal
import subprocess
import sys
from io import StringIO

import pytest
from flask import g
from prometheus_client.parser import text_string_to_metric_families

from rag.errors import SettingsError
from rag.jobs.pushes import PushedQueue
from rag.messages import Push
from rag.settings import Settings, load
from tests.indexer.server import Reply, Site, send
from tests.waiting import wait_for
from tests.web.fakes import FakeRetriever
from tests.web.test_server import Running
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


def test_a_request_is_a_span_that_does_not_tell_its_query(monkeypatch):
    pytest.importorskip("opentelemetry.instrumentation.flask", reason="the extra otel is not installed")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    collector, spans, services = Site(), [], set()

    def keep(handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        body = gzip.decompress(body) if handler.headers.get("Content-Encoding") == "gzip" else body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            services.update(
                pair.value.string_value for pair in resource.resource.attributes if pair.key == "service.name"
            )
            spans.extend(span for scope in resource.scope_spans for span in scope.spans)
        send(handler, Reply())

    collector.routes["/v1/traces"] = keep
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    retriever = FakeRetriever()
    app = create_app(retriever, Settings())
    client = app.test_client()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client.get("/api/v1/search?q=secret+words", headers={"traceparent": parent})
    retriever.error = ValueError("broken")
    client.get("/api/v1/search?q=secret", environ_overrides={"REMOTE_ADDR": "203.0.113.9"})
    app.extensions["stop_tracing"]()
    collector.close()
    answered, failed = spans
    assert answered.name == failed.name == "GET /api/v1/search"
    assert answered.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert answered.parent_span_id.hex() == "b7ad6b7169203331"
    assert (answered.status.code, failed.status.code) == (0, 2)  # 2 is ERROR
    sent = b"".join(span.SerializeToString() for span in spans)
    assert b"secret" not in sent
    assert b"203.0.113.9" not in sent
    assert services == {"pilotlight"}


def test_a_missing_library_is_said_in_one_line(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr(logs, "_TRACING", "opentelemetry_that_is_missing.flask")
    message = r"OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces need pip install 'pilotlight\[otel\]': install it or"
    with pytest.raises(SettingsError, match=message):
        logs.check_tracing()


def values(text: str | bytes) -> dict[str, float]:
    """Every sample by its name and its labels, as in `name{a="1",b="2"}`."""
    found = {}
    for family in text_string_to_metric_families(text if isinstance(text, str) else text.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_a_search_is_counted_by_stage_route_and_status(client):
    for path in ("/api/v1/search?q=index&mode=lexical", "/api/v1/search?q=index", "/api/v1/search", "/nowhere/at/all"):
        client.get(path)
    client.open("/api/v1/search", method="BREW")
    response = client.get("/metrics")
    assert (response.status_code, response.content_type) == (200, "text/plain; version=1.0.0; charset=utf-8")
    found = values(response.text)
    count = 'pilotlight_search_stage_seconds_count{{collection="default",mode="{}",stage="{}"}}'.format
    assert found[count("hybrid", "total")] == found[count("lexical", "total")] == 1
    assert count("hybrid", "embed") in found
    requests = 'pilotlight_http_requests_total{{method="{}",route="{}",status="{}"}}'.format
    assert found[requests("GET", "/api/v1/search", 200)] == 2
    assert found[requests("GET", "/api/v1/search", 400)] == 1
    assert found[requests("GET", "none", 404)] == 1
    assert found[requests("OTHER", "none", 405)] == 1
    assert found['pilotlight_http_request_seconds_count{route="/api/v1/search"}'] == 3
    assert found["pilotlight_http_requests_in_progress"] == 1  # this one
    client.application.extensions["metrics"].note("query_cache_lookups", "vectors", "hit")
    found = values(client.get("/metrics").text)
    assert found['pilotlight_query_cache_lookups_total{kind="vectors",outcome="hit"}'] == 1


def test_the_index_and_the_process_are_described(client, retriever):
    served = {"name": "default", "generation": "g1", "documents": 3, "chunks": 9, "created_at": "2026-11-20T04:00:00Z"}
    facts = {"ready": True, "model": "m", "engine": "native", "precision": "bf16"}
    retriever.status = lambda: facts | {"collections": [served, {"name": "x"}]}
    found = values(client.get("/metrics").text)
    assert found["pilotlight_ready"] == 1
    assert found['pilotlight_index_info{collection="default",generation="g1"}'] == 1
    assert found['pilotlight_index_created_timestamp_seconds{collection="default"}'] == 1795147200
    assert found['pilotlight_index_documents{collection="default"}'] == 3
    assert found['pilotlight_index_chunks{collection="default"}'] == 9
    assert any(name.startswith("pilotlight_build_info{") and 'engine="native"' in name for name in found)
    assert not any('collection="x"' in name for name in found)


def test_workers_count_together_and_a_killed_one_loses_nothing(tmp_path):
    running = Running(tmp_path)
    searched = 'pilotlight_search_stage_seconds_count{collection="default",mode="hybrid",stage="total"}'

    def scrape() -> dict[str, float]:
        return values(running.on_its_own_connection("/metrics").text)

    def search(times: int) -> None:
        for _ in range(times):
            running.on_its_own_connection("/api/v1/search?q=index").raise_for_status()

    try:
        running.make_ready()
        search(20)
        wait_for(lambda: scrape()[searched] == 20)  # counted within a second
        wait_for(lambda: scrape()["pilotlight_http_requests_in_progress"] == 1)  # this one
        os.kill(running.workers()[0], signal.SIGKILL)
        wait_for(lambda: len(running.workers()) == 2 and scrape()[searched] >= 20)
        running.make_ready()
        search(20)
        wait_for(lambda: scrape()[searched] == 40)
        wait_for(lambda: scrape()["pilotlight_http_requests_in_progress"] == 1)
    finally:
        status, errors = running.stop()
    assert status == 0, errors


def test_what_clients_make_up_is_counted_as_one(client):
    for number in range(100):
        client.open(f"/{number}/x", method=f"BREW{number}")
        client.get(f"/document/{number}?collection=c{number}", headers={"X-Request-Id": f"id-{number}"})
        client.post("/api/v1/search", json={"query": "a", "collection": f"c{number}"})
    assert len(values(client.get("/metrics").text)) < 400


def test_pushed_documents_that_wait_or_failed_are_on_the_status_page(tmp_path):
    settings = load({"index": str(tmp_path / "index")}, {})
    queue = PushedQueue(settings)  # which nobody has told to index
    queue.put(Push("https://a.test/late", text="Dogs bark."))
    client = create_app(FakeRetriever(), settings, None, queue).test_client()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", client.get("/status").text))
    assert "1 in all; 1 change waits, the first for" in text
    assert "0 could not be read." in text
