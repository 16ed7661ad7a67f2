"""Build an index without a model and without output."""

import io
from pathlib import Path
from typing import Any

from indexer.config import BuildConfig
from indexer.pipeline.build import build
from indexer.pipeline.progress import BuildReport, Progress
from tests.dummy import DummyEmbedder


def build_index(index: Path, *sources: object, embedder: DummyEmbedder | None = None, **config: Any) -> BuildReport:
    """Index sources with a dummy embedder. `config` has fields of `BuildConfig`."""
    quiet = Progress(io.StringIO(), quiet=True)
    return build([*map(str, sources)], index, embedder or DummyEmbedder(), BuildConfig(**config), progress=quiet)
