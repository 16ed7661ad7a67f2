"""An embedder that holds its process up, so that a test can end the process, or its node, in the middle of a task.

Run as `python -m tests.cluster.holding SOURCE FOLDER`, it builds on a cluster of this machine that it starts.
"""

import os
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.config import Role
from indexer.config import BuildConfig
from indexer.pipeline.build import build
from indexer.pipeline.cluster import Cluster, ray_session
from indexer.pipeline.progress import Progress
from tests.dummy import DummyEmbedder


class HoldingEmbedder(DummyEmbedder):
    """Stops before it embeds, until a file `go` is in the folder; says where in `held-NODE-PID`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def encode(self, texts: Sequence[str], *, role: Role = "document") -> npt.NDArray[np.float32]:
        if not (self._folder / "go").exists():
            import ray

            node = ray.get_runtime_context().get_node_id()
            (self._folder / f"held-{node}-{os.getpid()}").touch()
        while not (self._folder / "go").exists():
            threading.Event().wait(0.02)
        return super().encode(texts, role=role)


if __name__ == "__main__":
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        with ray_session("local"):
            cluster = Cluster(partial(HoldingEmbedder, folder), DummyEmbedder().fingerprint)
            quiet = Progress(sys.stderr, quiet=True)
            build([str(source)], folder / "index", DummyEmbedder(), BuildConfig(), progress=quiet, cluster=cluster)
    except KeyboardInterrupt:
        sys.exit(130)
