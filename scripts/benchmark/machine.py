"""The machine that the figures were measured on, and whether others were using it."""

import os
import platform
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from embedder import cpu

PACKAGES = (
    "torch",
    "sentence-transformers",
    "transformers",
    "langchain-community",
    "faiss-cpu",
    "tokenizers",
    "onnxruntime",
    "openvino",
    "nncf",
)


def describe() -> dict[str, Any]:
    """Return processor, cores, versions and date."""
    processor = cpu.detect()
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "cpu": processor.name,
        "isa": processor.isa,
        "cores": processor.cores,
        "python": platform.python_version(),
        "versions": versions,
        "date": datetime.now(UTC).date().isoformat(),
    }


class OtherWork:
    """How many cores were busy with others' work since this was made: figures of a disturbed run are not worth much."""

    def __init__(self) -> None:
        self._start = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """Return cores busy for other processes and machines, on average; None where the system does not say."""
        since, busy, own = self._start
        now = _busy_seconds()
        if busy is None or now is None:
            return None
        return round(max(0.0, (now - busy) - (_own_seconds() - own)) / max(1e-9, time.monotonic() - since), 2)


def _busy_seconds() -> float | None:
    path = Path("/proc/stat")
    if not path.exists():
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, path.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
