"""What the figures were measured on."""

import platform
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from embedder import cpu

PACKAGES = ("torch", "sentence-transformers", "transformers", "langchain-community", "faiss-cpu", "tokenizers")


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
