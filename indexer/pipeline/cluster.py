"""A Ray cluster that embeds for a build. Needs the extra `ray`.

Each block of texts is a task, which Ray runs again on another node if its node is lost. Tasks have no effect but their
result, and results are taken in the order of the build, so nothing is duplicated or missing.
"""

import logging
import os
import signal
import socket
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
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_RETRIES = 8  # of one task, when nodes are lost
_SPARE = 2  # blocks of texts that wait while every core embeds one
_COUNTED = 5.0  # seconds for which the number of cores is believed
_POLL = 1.0  # seconds
_PATIENCE = 60.0  # seconds without any node: as long as some need to come back
_CONNECT = 5.0  # seconds for an address to answer
_loaded: dict[str, Embedder] = {}  # the embedder that a node keeps from task to task, by the id of its work


@contextmanager
def ray_session(address: str) -> Iterator[None]:
    """Connect to a cluster, and end what was started here when the block ends, by SIGTERM too.

    The address is HOST:PORT or `auto`, of a cluster that this machine is a node of, or `local` to start one here.
    Raises ClusterError if it does not answer.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if address not in ("auto", "local"):
        _probe(address)
    before = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ClusterError(f"cannot use the Ray cluster {address}: {reason}") from error
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray's ends the process without a message
        yield
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, before)


def _probe(address: str) -> None:
    """Raise ClusterError unless something answers at an address HOST:PORT."""
    host, _, port = address.rpartition(":")
    if "://" in address or not (host and port.isdecimal() and 0 < int(port) < 65_536):
        raise ClusterError(
            f"--ray must be auto, local or HOST:PORT of a cluster that this machine is a node of, such as "
            f"10.0.0.1:6379, not {address[:80]!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): see that `ray start --head` runs there"
        ) from error


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a node, with all that it needs to know."""

    id: str  # no other has it
    load: Callable[[], Embedder]  # gives its embedder, fit for its own processor
    expected: dict[str, Any]  # the version of this package, and the fingerprint that its embedder has to have


@dataclass(frozen=True, slots=True)
class Task:
    """A block of texts that is embedded on a node."""

    cluster: "Cluster"
    ref: Any

    def result(self) -> tuple[DocumentTokens, float]:
        """Wait for the vectors, and the seconds that they took. Raises as `Cluster.wait_for`."""
        made: tuple[DocumentTokens, float] = self.cluster.wait_for(self.ref)
        return made


class Cluster:
    """The nodes of the cluster that this process is connected to, see `ray_session`."""

    def __init__(self, load: Callable[[], Embedder], fingerprint: Mapping[str, Any], cores: int = 1) -> None:
        """Check that every node can take tasks, which compiles the model there if necessary.

        What loads the embedder of a node is a function that can be imported there, or a partial of one; its
        fingerprint must be that of this machine. Raises ClusterError, also if no node has so many cores.
        """
        self._work = Work(uuid4().hex, load, {"pilotlight": package_version(), **fingerprint})
        self._cores = cores
        self._counted_at, self._tasks_at_once = -_COUNTED, 0
        self._encode = ray.remote(num_cpus=cores, max_retries=_RETRIES)(_encode_texts)
        nodes = self._nodes()
        if not nodes:
            raise ClusterError(f"no node of the cluster has {cores} cores for a task: lower --threads")
        # without a core of its own, so that it need not wait for one where the cluster is busy
        check = ray.remote(num_cpus=0, max_retries=_RETRIES)(_encode_texts)
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        started = [check.options(scheduling_strategy=strategy).remote([], self._work) for strategy in strategies]
        for node, task in zip(nodes, started, strict=True):
            try:
                self.wait_for(task)
            except ClusterError:
                if node in self._nodes():  # one that is lost meanwhile is as if it never was
                    raise

    @property
    def blocks(self) -> int:
        """Return how many blocks of texts may be under way."""
        if time.monotonic() - self._counted_at > _COUNTED:
            self._tasks_at_once = int(ray.cluster_resources().get("CPU", 0.0)) // self._cores
            self._counted_at = time.monotonic()
        return self._tasks_at_once + _SPARE

    def encode(self, texts: Sequence[str], *, tokens: bool = False) -> Task:
        """Start to embed texts, in their order, with their tokens if these are wanted."""
        return Task(self, self._encode.remote(list(texts), self._work, tokens))

    def wait_for(self, task: Any) -> Any:
        """Return the result of a task. Raises the error of the task, or ClusterError if no node is left to run it."""
        seen = time.monotonic()
        while not ray.wait([task], timeout=_POLL)[0]:
            if self._nodes():
                seen = time.monotonic()
            elif time.monotonic() - seen > _PATIENCE:
                raise ClusterError(
                    "all nodes of the cluster that could run a task are lost; nothing was published: start a node "
                    "and index again"
                )
        try:
            return ray.get(task)
        except RayTaskError as error:
            if isinstance(error.cause, PilotlightError):
                raise error.cause from None
            reason = str(error).strip().rpartition("\n")[2][:200]
            raise ClusterError(f"a task failed on a node of the cluster: {reason}; nothing was published") from error
        except RayError as error:
            reason = str(error).strip().partition("\n")[0][:200]
            raise ClusterError(
                f"a task was lost {_RETRIES + 1} times with its node or process ({reason}); nothing was published: "
                "check that the nodes have enough memory"
            ) from error

    def _nodes(self) -> list[str]:
        """Return the ids of the nodes that can take a task."""
        return [
            node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0) >= self._cores
        ]


def _encode_texts(texts: Sequence[str], work: Work, tokens: bool = False) -> tuple[DocumentTokens, float] | None:
    """Embed texts on a node; without texts, only load the model, and compile it where that has not been done yet.

    Raises ClusterError, or EmbedderError where the model gives no numbers.
    """
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
    made = encode_documents(_loaded[work.id], texts, tokens=tokens) if texts else None
    return (made, time.perf_counter() - began) if made else None
