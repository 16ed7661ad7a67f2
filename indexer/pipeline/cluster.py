"""A Ray cluster that embeds for a build. Needs the extra `ray`.

Each block of texts is a task, which Ray runs again on another node if its node is lost. Tasks have no effect but their
result, and results are taken in the order of the build, so nothing is duplicated or missing.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from embedder.errors import EmbedderError, PilotlightError
from embedder.late_interaction import DocumentTokens
from embedder.text_embedder import Embedder, encode_documents
from indexer.config import package_version
from indexer.errors import ClusterError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reads all three while it is imported
os.environ.setdefault("RAY_py_gcs_connect_timeout_s", "5")  # for an address at which something else listens
os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")

import ray
from ray.exceptions import RayError, RayTaskError

_RETRIES = 8  # of one task, when nodes are lost
_SPARE = 2  # blocks of texts that wait while every core embeds one
_POLL = 1.0  # seconds
_PATIENCE = 60.0  # seconds without any node: as long as some need to come back
_loaded: dict[str, Embedder] = {}  # the embedder that a node keeps from task to task, by the id of its work


@contextmanager
def ray_session(address: str) -> Iterator[None]:
    """Connect to a cluster, and end what was started here when the block ends, by SIGTERM too.

    The address is HOST:PORT or `auto`, of a cluster that this machine is a node of, or `local` to start one here.
    Raises ClusterError if it does not answer.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if "://" in address:
        raise ClusterError(
            "--ray must be auto, local or HOST:PORT of a cluster that this machine is a node of, such as "
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
                f"cannot use the Ray cluster {address}: {reason}; see that `ray start --head` runs there"
            ) from error
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray's ends the process without a message
        yield
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True, slots=True)
class Work:
    """What a node needs to know."""

    id: str
    load: Callable[[], Embedder]  # gives its embedder, fit for its own processor
    expected: dict[str, Any]  # the version of this package, and the fingerprint that its embedder has to have


class Cluster:
    """The nodes of the cluster that this process is connected to, see `ray_session`."""

    def __init__(self, load: Callable[[], Embedder], fingerprint: Mapping[str, Any], cores: int = 1) -> None:
        """Take what loads the embedder of a node: a function that can be imported there, or a partial of one.

        Its fingerprint must be that of this machine. Raises ClusterError if no node has so many cores.
        """
        self._work = Work(uuid4().hex, load, {"pilotlight": package_version(), **fingerprint})
        self._cores = cores
        self.blocks = int(ray.cluster_resources().get("CPU", 0.0)) // cores + _SPARE  # that may be under way
        self._encode = ray.remote(num_cpus=cores, max_retries=_RETRIES)(_encode_texts)
        if not self._has_nodes():
            raise ClusterError(f"no node of the cluster has {cores} cores for a task: lower --threads")

    def encode(self, texts: Sequence[str], *, tokens: bool = False) -> tuple[DocumentTokens, float]:
        """Embed texts on a node, with their tokens if these are wanted; return the seconds that it took as well.

        Raises the error of the task, or ClusterError if no node is left to run it.
        """
        task = self._encode.remote(list(texts), self._work, tokens)
        seen = time.monotonic()
        while not ray.wait([task], timeout=_POLL)[0]:
            if self._has_nodes():
                seen = time.monotonic()
            elif time.monotonic() - seen > _PATIENCE:
                raise ClusterError(
                    "all nodes of the cluster that could run a task are lost; nothing was published: start a node "
                    "and index again"
                )
        try:
            made: tuple[DocumentTokens, float] = ray.get(task)
            return made
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, PilotlightError):
                raise error.cause from None
            lines = str(error).strip().splitlines()
            reason = lines[-1 if isinstance(error, RayTaskError) else 0][:200]
            raise ClusterError(
                f"a task failed, or was lost {_RETRIES + 1} times with its node or process; nothing was published: "
                f"check that the nodes have enough memory ({reason})"
            ) from error

    def _has_nodes(self) -> bool:
        """Return whether a node can take a task."""
        return any(node["Alive"] and node["Resources"].get("CPU", 0.0) >= self._cores for node in ray.nodes())


def _encode_texts(texts: Sequence[str], work: Work, tokens: bool) -> tuple[DocumentTokens, float]:
    """Embed texts on a node, which loads the model first. Raises ClusterError, or EmbedderError for no numbers."""
    if work.id not in _loaded:
        where = f"the node {ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"
        try:
            embedder = work.load()
        except EmbedderError as error:
            raise ClusterError(f"{where} cannot embed: {error}") from error
        found = {"pilotlight": package_version(), **embedder.fingerprint}
        for name in work.expected.keys() | found.keys():
            if found.get(name) != work.expected.get(name):
                raise ClusterError(
                    f"{where} has {name} {found.get(name)}, and this machine {work.expected.get(name)}: make them "
                    "alike, or take it out of the cluster; nothing was published"
                )
        _loaded.clear()
        _loaded[work.id] = embedder
    began = time.perf_counter()
    made = encode_documents(_loaded[work.id], texts, tokens=tokens)
    return made, time.perf_counter() - began
