"""Do the job of a folder, or without one index what was pushed, as `rag.commands.jobs` does, with the dummy embedder.

A file `stop-here` among the sources holds it up until it is told to stop, a file `crash` ends the process.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from indexer.config import BuildConfig
from indexer.generation.previous import live_sources
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from rag.commands.jobs import run_job
from rag.jobs.builds import PushedBuilder
from rag.settings import load
from tests.dummy import DummyEmbedder


def work(asked: dict[str, Any]) -> dict[str, Any]:
    """Build the collection that the environment names."""
    folder = load().collection_dir
    sources = live_sources(folder)
    for source in map(Path, sources):
        if (source / "crash").exists():
            os.abort()
        while (source / "stop-here").exists():
            (source / "held-up").touch()
            threading.Event().wait(0.01)
    progress = Progress(sys.stderr)
    return build(sources, folder, DummyEmbedder(), BuildConfig(full=asked["full"]), progress=progress).as_dict()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run_job(Path(sys.argv[1]), work))
    server = os.getppid()
    PushedBuilder(load(), lambda settings: DummyEmbedder()).run_until_idle(lambda: os.getppid() == server, idle=5.0)
