"""Measure requests and searches for Prometheus (`/metrics`), the status page and the log.

Workers write their counters to files in a shared folder, so that any worker can report the sums for all workers.
"""

import itertools
import logging
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import metadata
from typing import Any

from flask import Blueprint, Flask, Response, current_app, g
from prometheus_client import exposition, metrics, multiprocess, values
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from rag.query.request import ALL, SearchRequest
from rag.query.results import Answer
from rag.serving.live import LiveRetriever
from web import logs
from web.guards.limits import SHARED_FOLDER
from web.openapi import Content, Operation
from web.problems import this_request

WORKER_NUMBER = "PILOTLIGHT_WORKER"
STAGES = ("embed", "dense", "lexical", "fuse", "rerank", "total")
BUCKETS_S = (
    *(0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016, 0.025, 0.035),
    *(0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
MAX_QUEUED_VALUES = 100
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics", "/static/<path:filename>", "/embed.js"})
_QUEUE_SAMPLES = {
    "pilotlight_http_requests_waiting": "waiting",
    "pilotlight_http_request_wait_seconds_sum": "seconds",
    "pilotlight_http_request_wait_seconds_count": "answered",
    "pilotlight_requests_refused_total": "refused",
}
# name → class of the metric, method that records a value, help text, names of labels
METRICS = {
    "search_stage_seconds": (metrics.Histogram, "observe", "Time of one stage of a search.", "stage mode collection"),
    "http_requests": (metrics.Counter, "inc", "Requests answered.", "method route status"),
    "http_request_seconds": (metrics.Histogram, "observe", "Time until a response begins.", "route"),
    "http_request_wait_seconds": (metrics.Histogram, "observe", "Time that a request waited for a thread.", "kind"),
    "http_requests_waiting": (metrics.Gauge, "set", "Requests that wait for a thread.", "kind"),
    "http_requests_in_progress": (metrics.Gauge, "inc", "Requests being answered.", ""),
    "requests_refused": (metrics.Counter, "inc", "Requests refused, by reason.", "reason kind"),
    "insights_searches": (metrics.Counter, "inc", "Searches that insights recorded or dropped.", "outcome"),
    "query_cache_lookups": (metrics.Counter, "inc", "Lookups in the cache of queries and answers.", "kind outcome"),
}
_OPTIONS: dict[Any, Any] = {metrics.Histogram: {"buckets": BUCKETS_S}, metrics.Gauge: {"multiprocess_mode": "livesum"}}
ReadStatus = Callable[[], dict[str, Any]]

blueprint = Blueprint("metrics", __name__)
metrics.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of an application. Values are queued, because the Prometheus client has one lock for all metrics."""

    def __init__(self, status: ReadStatus) -> None:
        registry = self._collected = CollectorRegistry()
        if SHARED_FOLDER in os.environ:
            number = os.environ.get(WORKER_NUMBER, "0")
            values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]
            multiprocess.MultiProcessCollector(self._collected)  # type: ignore[no-untyped-call]
            registry = CollectorRegistry()
        metric_by_name: dict[str, Any] = {
            name: kind(name, text, labels.split(), namespace="pilotlight", registry=registry, **_OPTIONS.get(kind, {}))
            for name, (kind, _, text, labels) in METRICS.items()
        }

        @cache
        def recorder_of(name: str, *labels: str) -> Callable[[float], object]:
            metric = metric_by_name[name].labels(*labels) if labels else metric_by_name[name]
            return getattr(metric, METRICS[name][1])  # type: ignore[no-any-return]

        self._recorder_of = recorder_of
        self._collected.register(_StateCollector(status))
        self._queued: deque[tuple[Callable[[float], object], float]] = deque()
        self._flush_lock = threading.Lock()

    def flush(self, *, wait: bool = False) -> None:
        """Record the queued values. If another thread is recording, return immediately unless `wait` is true."""
        if self._flush_lock.acquire(blocking=wait):
            try:
                while self._queued:
                    count, value = self._queued.popleft()
                    count(value)
            finally:
                self._flush_lock.release()

    def note(self, name: str, *labels: str, value: float = 1) -> None:
        """Queue a value for the metric in METRICS with this name and these labels. `flush` records it."""
        self._queued.append((self._recorder_of(name, *labels), value))
        if len(self._queued) > MAX_QUEUED_VALUES:
            self.flush()

    def queues(self) -> list[dict[str, Any]]:
        """Return the numbers of waiting, answered and refused requests of each kind."""
        self.flush(wait=True)
        queues: dict[str, dict[str, Any]] = {}
        for sample in (sample for family in self._collected.collect() for sample in family.samples):
            if "kind" in sample.labels and (name := _QUEUE_SAMPLES.get(sample.name)):
                kind = sample.labels["kind"] or sample.labels["reason"]
                queue = queues.setdefault(kind, {"kind": kind} | dict.fromkeys(_QUEUE_SAMPLES.values(), 0.0))
                queue[name] += sample.value
        return [queues[kind] for kind in sorted(queues)]

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self.flush(wait=True)
        return exposition.generate_latest(self._collected)


class _StateCollector(Collector):
    """Collects metrics of the index generations that this worker serves."""

    def __init__(self, status: ReadStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield gauges with values from `LiveRetriever.status`."""
        status = self._status()
        yield _gauge("ready", "Whether the server is ready.", {(): bool(status.get("ready"))})
        build = {"version": metadata.version("pilotlight")}
        build |= {name: str(status.get(name, "")) for name in ("model", "engine", "precision", "query_precision")}
        yield _gauge("build_info", "Version of the server, with its model.", {tuple(build.values()): 1}, *build)
        served = {each["name"]: each for each in status.get("collections", ()) if each.get("generation")}
        info = {(name, each["generation"]): 1 for name, each in served.items()}
        yield _gauge("index_info", "Generation that is served.", info, "collection", "generation")
        created = {(name,): datetime.fromisoformat(each["created_at"]).timestamp() for name, each in served.items()}
        yield _gauge("index_created_timestamp_seconds", "When the generation was built.", created, "collection")
        for unit in ("documents", "chunks"):
            counts = {(name,): each[unit] for name, each in served.items()}
            yield _gauge(f"index_{unit}", f"Number of {unit} of the generation that is served.", counts, "collection")


def _gauge(name: str, text: str, samples: Mapping[Any, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"pilotlight_{name}", text, labels=labels)
    for values_of_labels, value in samples.items():
        family.add_metric(values_of_labels, value)
    return family


@dataclass(slots=True)
class RequestLog:
    """The data of a request that is logged when the request ends."""

    id: str
    began: float = field(default_factory=time.perf_counter)
    searches: list[dict[str, Any]] = field(default_factory=list)


def install(app: Flask, retriever: LiveRetriever) -> None:
    """Register hooks that measure requests. Call this first, so that requests refused by other hooks count too."""
    app.extensions["metrics"] = counted = Metrics(lambda: retriever.status())
    app.extensions["stop_tracing"] = logs.start_tracing(app)
    app.register_blueprint(blueprint)

    def begin() -> None:
        sent_id = this_request().environ.get("HTTP_X_REQUEST_ID", "")
        g.request_log = RequestLog(sent_id if _SANE_ID.fullmatch(sent_id) else secrets.token_hex(8))
        counted.note("http_requests_in_progress")

    def end(response: Response) -> Response:
        log_record, http_request = g.request_log, this_request()
        response.headers.add("X-Request-Id", log_record.id)
        seconds = time.perf_counter() - log_record.began
        route = http_request.url_rule.rule if http_request.url_rule else "none"
        method = http_request.method if http_request.method in METHODS else "OTHER"
        counted.note("http_requests", method, route, str(response.status_code))
        counted.note("http_request_seconds", route, value=seconds)
        _log(log_record, http_request.method, route, response.status_code, seconds)
        return response

    def leave(error: BaseException | None) -> None:
        if "request_log" in g:
            counted.note("http_requests_in_progress", value=-1)

    app.before_request(begin)
    app.after_request(end)
    app.teardown_request(leave)


def _log(log_record: RequestLog, method: str, route: str, status: int, seconds: float) -> None:
    level = logging.ERROR if status >= 500 and status != 503 else logging.INFO
    if status < 400 and route in _QUIET_ROUTES:
        level = logging.DEBUG
    fields = {
        "request_id": log_record.id,
        "method": method,
        "route": route,
        "status": status,
        "ms": round(seconds * 1000, 2),
    }
    if name := getattr(g.get("caller"), "name", ""):
        fields["key"] = name
    if len(log_record.searches) == 1:
        fields |= log_record.searches[0]
    logs.requests.log(level, "request", extra={logs.FIELDS: fields})


def number_worker(server: Any, worker: Any) -> None:
    """Give a worker the lowest free number. The worker continues the counter files of the last worker that had it."""
    numbers = {each.number for each in server.WORKERS.values()}
    worker.number = next(number for number in itertools.count() if number not in numbers)
    os.environ[WORKER_NUMBER] = str(worker.number)


def note_search(counted: Metrics, answer: Answer, search: SearchRequest) -> None:
    """Record the times of a search, and store its details for the request's log record."""
    names, mode = answer.collections, search.mode
    for stage in STAGES:
        if milliseconds := answer.took_ms.get(stage):
            collection = names[0] if len(names) == 1 else ALL
            counted.note("search_stage_seconds", stage, mode, collection, value=milliseconds / 1000)
    g.request_log.searches.append(
        {"collection": ",".join(names), "mode": mode, "k": search.k, "hits": len(answer.hits)}
    )


@blueprint.get("/metrics")
@Operation(role="read", needs_everything=True, responses={200: Content("text/plain", {"type": "string"})})
def show() -> Response:
    """Show the counters and times of all workers, in the Prometheus text format."""
    return Response(current_app.extensions["metrics"].text(), content_type=exposition.CONTENT_TYPE_LATEST)
