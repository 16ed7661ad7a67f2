"""A Ray cluster that embeds for a build. Needs the extra `ray`.

Each block of texts is a task. If a node is lost, Ray runs its tasks on other nodes. Tasks have no side effects, and the
build stores the results in the order of the texts, so no vector is duplicated or missing.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from embedder.errors import EmbedderError, PilotlightError
from embedder.late_interaction import DocumentTokens
from embedder.text_embedder import Embedder, encode_documents
from indexer.config import package_version
from indexer.errors import ClusterError
from indexer.stop_signal import raise_at

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reads these variables when it is imported
os.environ.setdefault("RAY_py_gcs_connect_timeout_s", "5")  # fail soon if another program listens at the address
os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # otherwise a thread of a stopped build could start a cluster

import ray
from ray.exceptions import RayError, RayTaskError

_MAX_RETRIES = 8
_WAITING_BLOCKS = 2
_POLL_SECONDS = 1.0
_MAX_SECONDS_WITHOUT_NODES = 60.0
_embedder_by_work_id: dict[str, Embedder] = {}


@contextmanager
def ray_session(address: str) -> Iterator[None]:
    """Connect to a Ray cluster for the duration of a `with` block.

    `address` is HOST:PORT or `auto` for a cluster that includes this machine. `local` starts a cluster on this machine,
    and stops it after the block. Raises ClusterError if the cluster does not answer.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if "://" in address:
        raise ClusterError(
            "--ray must be auto, local, or the HOST:PORT of a cluster that includes this machine, such as "
            f"10.0.0.1:6379, not {address[:80]!r}"
        )
    before = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ClusterError(
                f"cannot use the Ray cluster {address}: {reason}; check that `ray start --head` was run there"
            ) from error
        with raise_at(signal.SIGTERM):  # Ray's handler ends the process without a message
            yield
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True, slots=True)
class Work:
    """Data for a node: a function that loads the embedder, and the expected fingerprint and package version."""

    id: str
    load: Callable[[], Embedder]
    expected: dict[str, Any]


class Cluster:
    """The nodes of the cluster that this process is connected to, see `ray_session`."""

    def __init__(self, load: Callable[[], Embedder], fingerprint: Mapping[str, Any], cores: int = 1) -> None:
        """Find the nodes that can run tasks.

        Args:
            load: loads the embedder on a node: a function that the node can import, or a `partial` of it.
            fingerprint: fingerprint of the embedder on this machine. It must be the same on all nodes.
            cores: number of cores for each task.

        Raises:
            ClusterError: no node has enough cores for a task.
        """
        self._work = Work(uuid4().hex, load, {"pilotlight": package_version(), **fingerprint})
        self._cores = cores
        self.blocks = int(ray.cluster_resources().get("CPU", 0.0)) // cores + _WAITING_BLOCKS
        self._encode = ray.remote(num_cpus=cores, max_retries=_MAX_RETRIES)(_encode_texts)
        if not self._has_nodes():
            raise ClusterError(f"no node of the cluster has {cores} cores for a task: lower --threads")

    def encode(self, texts: Sequence[str], *, tokens: bool = False) -> tuple[DocumentTokens, float]:
        """Embed texts on a node, with token vectors if `tokens` is True. Returns vectors and the duration in seconds.

        Raises the error of the task, or ClusterError if no node is left to run it.
        """
        # uses a future, because ray.wait may never return if another thread disconnects
        task: Future[tuple[DocumentTokens, float]] = self._encode.remote(list(texts), self._work, tokens).future()
        last_seen = time.monotonic()
        while not wait([task], timeout=_POLL_SECONDS).done:
            if not ray.is_initialized():
                raise ClusterError("the build was stopped before its tasks were done")
            if self._has_nodes():
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > _MAX_SECONDS_WITHOUT_NODES:
                raise ClusterError(
                    "all nodes of the cluster that could run a task are lost; nothing was published: start a node "
                    "and index again"
                )
        try:
            return task.result()
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, PilotlightError):
                raise error.cause from None
            lines = str(error).strip().splitlines()
            reason = lines[-1 if isinstance(error, RayTaskError) else 0][:200]
            raise ClusterError(
                f"a task failed, or its node or process was lost {_MAX_RETRIES + 1} times; nothing was published: "
                f"check that the nodes have enough memory ({reason})"
            ) from error

    def _has_nodes(self) -> bool:
        return any(node["Alive"] and node["Resources"].get("CPU", 0.0) >= self._cores for node in ray.nodes())


def _encode_texts(texts: Sequence[str], work: Work, tokens: bool) -> tuple[DocumentTokens, float]:
    """Embed texts on this node. The first task loads the embedder. Raises ClusterError or EmbedderError."""
    if work.id not in _embedder_by_work_id:
        where = f"the node {ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"
        try:
            embedder = work.load()
        except EmbedderError as error:
            raise ClusterError(f"{where} cannot embed: {error}") from error
        fingerprint = {"pilotlight": package_version(), **embedder.fingerprint}
        for name in work.expected.keys() | fingerprint.keys():
            if fingerprint.get(name) != work.expected.get(name):
                raise ClusterError(
                    f"{where} has {name} {fingerprint.get(name)}, and this machine {work.expected.get(name)}: install "
                    "the same on both, or remove the node; nothing was published"
                )
        _embedder_by_work_id.clear()
        _embedder_by_work_id[work.id] = embedder
    began = time.perf_counter()
    token_arrays = encode_documents(_embedder_by_work_id[work.id], texts, tokens=tokens)
    return token_arrays, time.perf_counter() - began
