"""What the server says of itself, in one process and over several."""

import os
import re
import signal

from prometheus_client.parser import text_string_to_metric_families

from rag.jobs.pushes import PushedQueue
from rag.messages import Push
from rag.settings import load
from tests.web.fakes import FakeRetriever
from tests.web.test_server import Running, until
from web.app import create_app


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
        until(lambda: scrape()[searched] == 20)  # counted within a second
        until(lambda: scrape()["pilotlight_http_requests_in_progress"] == 1)  # this one
        os.kill(running.workers()[0], signal.SIGKILL)
        until(lambda: len(running.workers()) == 2 and scrape()[searched] >= 20)
        running.make_ready()
        search(20)
        until(lambda: scrape()[searched] == 40)
        until(lambda: scrape()["pilotlight_http_requests_in_progress"] == 1)
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
