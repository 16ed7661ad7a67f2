"""Measurements of the server, for Prometheus at `/metrics` and for the status page.

Workers count into files of a folder they share (see `worker_folder`); whichever is asked adds them up.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, current_app
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    exposition,
    multiprocess,
    values,
)
from prometheus_client.metrics_core import Metric

from rag.query.results import Answer
from web.observe.gauges import IndexCollector, PushedCollector, Status, Waiting, WorkerCollector
from web.observe.throughput import Minute, Throughput
from web.observe.worker_folder import FOLDER_VARIABLE, claim_number
from web.openapi import Content, operation

STAGES = ("embed", "dense", "lexical", "fuse", "rerank", "sentences", "total")
SECONDS = (
    *(0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016, 0.025, 0.035),
    *(0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
BATCH_TEXTS = (1, 2, 4, 8, 16, 32)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "none"
_READINESS = "/readyz"  # its 503 is an answer, and no failure

blueprint = Blueprint("metrics", __name__)
disable_created_metrics()  # type: ignore[no-untyped-call]  # which the files of several processes do not have either


@dataclass(frozen=True, slots=True)
class Overview:
    """The figures of the status page."""

    stages: dict[str, list[tuple[float, int]]]  # by stage: upper bound in seconds, searches up to it and over the last
    minutes: list[Minute]  # of the last hour, oldest first


class Metrics:
    """The counters of one application; safe to use from several threads."""

    def __init__(self, status: Status, waiting: Waiting | None = None) -> None:
        self._registry = CollectorRegistry()
        folder = Path(os.environ[FOLDER_VARIABLE]) if FOLDER_VARIABLE in os.environ else None
        self._slot = claim_number(folder) if folder else None  # held as long as this object
        number = self._slot.number if self._slot else 0
        if folder:
            _count_into(folder, number)
        self._collected = CollectorRegistry() if folder else self._registry
        self._throughput = Throughput(folder, number)
        self._stages = self._histogram(
            "search_stage_seconds", "Time of one stage of a search.", "stage mode collection"
        )
        self._requests = self._counter("http_requests", "Requests answered.", "method route status")
        self._seconds = self._histogram("http_request_seconds", "Time until an answer begins.", "route")
        self._refused = self._counter("requests_refused", "Requests refused, by reason.", "reason")
        self._batch = self._histogram("model_batch_texts", "Queries in one run of the model.", "", BATCH_TEXTS)
        self._queue = self._gauge("model_queue", "Queries that waited for the model when its last run ended.")
        self._open = self._gauge("http_requests_in_progress", "Requests being answered.")
        self._compiled = self._counter(
            "model_compilations", "Graphs that engine `compile` has compiled since the start."
        )
        self._insights = self._counter(
            "insights_searches", "Searches that were written to the record of what people ask, or dropped.", "outcome"
        )
        self._graphs = 0
        self._children: dict[tuple[Any, ...], Any] = {}  # looking them up in the client takes longer than counting
        if folder:
            multiprocess.MultiProcessCollector(self._collected, str(folder))  # type: ignore[no-untyped-call]
        self._collected.register(IndexCollector(status))
        self._collected.register(WorkerCollector(folder))
        if waiting is not None:
            self._collected.register(PushedCollector(waiting))

    def searched(self, answer: Answer, mode: str, collection: str) -> None:
        """Count one search that was answered."""
        took = answer.took_ms
        for stage in STAGES:
            if (milliseconds := took.get(stage)) and stage != _IDLE.get(mode):
                self._child(self._stages, stage, mode, collection).observe(milliseconds / 1000)
        self._throughput.add(searches=1)
        self._count_graphs()

    def batch(self, texts: int, waiting: int) -> None:
        """Count one run of the model, as `QueryBatcher` tells it."""
        self._batch.observe(texts)
        self._queue.set(waiting)

    def recorded(self, outcome: str, number: int) -> None:
        """Count searches that were written, or could not be, as `Recorder` tells it."""
        self._child(self._insights, outcome).inc(number)

    def began(self) -> None:
        """Count a request that has come."""
        self._open.inc()

    def ended(self) -> None:
        """Count a request that is over, however it ended."""
        self._open.dec()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        method = method if method in METHODS else "OTHER"  # a client may send any word
        self._child(self._requests, method, route, str(status)).inc()
        self._child(self._seconds, route).observe(seconds)
        if status >= 500 and route != _READINESS:
            self._throughput.add(errors=1)

    def refuse(self, reason: str) -> None:
        """Count a request that is turned away."""
        self._child(self._refused, reason).inc()

    def text(self) -> bytes:
        """Return everything in the Prometheus text format."""
        return exposition.generate_latest(self._collected)

    def overview(self) -> Overview:
        """Return the distribution of each stage's time, over modes and collections, and the last hour's searches."""
        stages: dict[str, dict[float, float]] = {stage: {} for stage in STAGES}
        for metric in self._metrics("pilotlight_search_stage_seconds"):
            for sample in metric.samples:
                if sample.name.endswith("_bucket"):
                    counts, bound = stages[sample.labels["stage"]], float(sample.labels["le"])
                    counts[bound] = counts.get(bound, 0) + sample.value
        return Overview({stage: _apart(counts) for stage, counts in stages.items()}, self._throughput.last_hour())

    def _metrics(self, name: str) -> Iterator[Metric]:
        return (metric for metric in self._collected.collect() if metric.name == name)

    def _count_graphs(self) -> None:
        dynamo = sys.modules.get("torch._dynamo.utils")  # only where the engine `compile` has loaded it
        if dynamo and (graphs := dynamo.counters["stats"]["unique_graphs"]) > self._graphs:
            self._compiled.inc(graphs - self._graphs)
            self._graphs = graphs

    def _child(self, metric: Any, *labels: str) -> Any:
        key = (metric, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def _counter(self, name: str, text: str, labels: str = "") -> Counter:
        return Counter(f"pilotlight_{name}", text, labels.split(), registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"pilotlight_{name}", text, registry=self._registry, multiprocess_mode="livesum")

    def _histogram(self, name: str, text: str, labels: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
        return Histogram(f"pilotlight_{name}", text, labels.split(), registry=self._registry, buckets=buckets)


_IDLE = {"dense": "lexical", "lexical": "dense"}  # the stage that a mode leaves out


def _count_into(folder: Path, number: int) -> None:
    for stale in folder.glob(f"gauge_live*_{number}.db"):
        stale.unlink()  # what the worker that died with this number had open
    values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]


def _apart(cumulative: dict[float, float]) -> list[tuple[float, int]]:
    before, apart = 0.0, []
    for bound, count in sorted(cumulative.items()):
        apart.append((bound, int(count - before)))
        before = count
    return apart


@blueprint.get("/metrics")
@operation(
    summary="Counters and times of all workers, in the Prometheus text format.",
    role="read",
    whole=True,
    responses={200: Content("text/plain", {"type": "string"})},
)
def show() -> Response:
    """Answer with what all workers counted."""
    metrics: Metrics = current_app.extensions["metrics"]
    return Response(metrics.text(), content_type=exposition.CONTENT_TYPE_LATEST)
