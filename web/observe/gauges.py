"""Metrics that are looked up when `/metrics` is asked for: the index that is served, and the worker processes."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from web.observe.worker_folder import workers

Status = Callable[[], dict[str, Any]]
Waiting = Callable[[], dict[str, dict[str, Any]]]
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_INDEX = {  # fields of a collection's status
    "documents": "Documents of the generation that is served.",
    "chunks": "Passages of the generation that is served.",
}
_PUSHED = {  # name of the metric: field of `PushedQueue.waiting`
    "waiting": ("queued", "Changes that wait to be indexed."),
    "failed": ("failed", "Documents that could not be read."),
    "oldest_wait_seconds": ("oldest_seconds", "How long the first of the changes waits."),
}


class IndexCollector(Collector):
    """The generations served by the worker that is asked; another may be a second ahead."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield what `Retriever.status` says."""
        status = self._status()
        yield GaugeMetricFamily("pilotlight_ready", "Whether the server is ready.", value=bool(status.get("ready")))
        yield _info(
            "build",
            "What is running.",
            {"version": metadata.version("pilotlight")}
            | {name: str(status.get(name, "")) for name in ("model", "engine", "precision")},
        )
        served = [each for each in status.get("collections", ()) if each.get("generation")]
        generation = GaugeMetricFamily(
            "pilotlight_index_info", "Which generation is served.", labels=("collection", "generation")
        )
        created = GaugeMetricFamily(
            "pilotlight_index_created_timestamp_seconds", "When the generation was built.", labels=("collection",)
        )
        for each in served:
            generation.add_metric((each["name"], each["generation"]), 1)
            created.add_metric((each["name"],), datetime.fromisoformat(each["created_at"]).timestamp())
        yield generation
        yield created
        for name, text in _INDEX.items():
            family = GaugeMetricFamily(f"pilotlight_index_{name}", text, labels=("collection",))
            for each in served:
                family.add_metric((each["name"],), each[name])
            yield family


class PushedCollector(Collector):
    """Documents that were pushed and are not indexed yet, by collection; nothing where they cannot be counted."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    def collect(self) -> Iterator[Metric]:
        """Yield what `PushedQueue.waiting` says."""
        try:
            collections = self._waiting()
        except (OSError, sqlite3.Error):  # a disk that is full or failing says so elsewhere
            return
        for name, (field, text) in _PUSHED.items():
            family = GaugeMetricFamily(f"pilotlight_pushed_{name}", text, labels=("collection",))
            for collection, facts in collections.items():
                family.add_metric((collection,), facts[field])
            yield family


class WorkerCollector(Collector):
    """Memory, processor time, threads and files of every worker, as the system has them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        """Yield one sample for each worker that is alive."""
        resident = GaugeMetricFamily("pilotlight_worker_resident_memory_bytes", "Memory in use.", labels=("worker",))
        cpu = CounterMetricFamily("pilotlight_worker_cpu_seconds", "Processor time used.", labels=("worker",))
        threads = GaugeMetricFamily("pilotlight_worker_threads", "Threads.", labels=("worker",))
        files = GaugeMetricFamily("pilotlight_worker_open_files", "Open files and connections.", labels=("worker",))
        for number, process in (workers(self._folder) if self._folder else {0: os.getpid()}).items():
            folder, label = Path(f"/proc/{process}"), (str(number),)
            try:
                # the name of the process, in brackets, may hold spaces
                fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                opened = sum(1 for _ in (folder / "fd").iterdir())
            except OSError:
                continue  # it has ended, or there is no /proc
            cpu.add_metric(label, (int(fields[11]) + int(fields[12])) / _TICKS)
            threads.add_metric(label, int(fields[17]))
            resident.add_metric(label, int(fields[21]) * _PAGE)
            files.add_metric(label, opened)
        yield from (resident, cpu, threads, files)


def _info(name: str, text: str, labels: dict[str, str]) -> Metric:
    family = GaugeMetricFamily(f"pilotlight_{name}_info", text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), 1)
    return family
