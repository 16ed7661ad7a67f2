"""The cluster that the settings name, for a build. Without one, nothing of Ray is imported."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from embedder.engines.plan import resolve_precision
from embedder.protocol import Embedder
from rag.settings import SETTINGS, Settings, load

if TYPE_CHECKING:
    from indexer.pipeline.ray.driver import Cluster


@contextmanager
def cluster_of(settings: Settings, fingerprint: Mapping[str, Any]) -> Iterator["Cluster | None"]:
    """Connect to the cluster of the settings, if they name one, until the block ends.

    Every node gets the embedder of the settings with the engine that its own processor runs, in the precision of this
    machine. A task takes one core, or `threads` of them: of processes beside each other, none waits for another.

    Raises:
        ClusterError: there is no such cluster, or Ray is not installed.
        NodeDiffers: a node cannot be used with this machine.
    """
    if not settings.ray:
        yield None
        return
    from indexer.pipeline.ray.session import ray_session

    with ray_session(settings.ray):
        from indexer.pipeline.ray.driver import Cluster

        cores = settings.threads or 1
        theirs = {setting.name: getattr(settings, setting.name) for setting in SETTINGS if setting.group == "embedder"}
        theirs |= {"threads": cores, "precision": resolve_precision(settings.precision)}
        yield Cluster(partial(node_embedder, theirs), fingerprint, cores)


def node_embedder(settings: Mapping[str, Any]) -> Embedder:
    """Load the embedder of these settings on a node; compiled there once, by the first process that needs it."""
    from rag.serving.live import load_embedder

    return load_embedder(load(settings, {}))
