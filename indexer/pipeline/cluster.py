"""A Ray cluster as workers of a build: its nodes read and cut pages, and embed texts. Needs the extra `ray`.

Each page and each block of texts is a separate task, which Ray runs again on another node if its node is lost. Tasks
have no effect but their result, and results are taken in the order of the build, so nothing is duplicated or missing.
"""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, Generic, TypeVar
from uuid import uuid4

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from embedder.errors import EmbedderError, PilotlightError
from embedder.late_interaction import DocumentTokens
from embedder.protocol import Embedder, encode_documents
from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker
from indexer.errors import ClusterError, NodeDiffers
from indexer.generation.previous import READER_VERSION
from indexer.pipeline.workers import AHEAD
from indexer.read.ocr.pages import Ocr, find
from indexer.read.parsing import parse
from indexer.records import Page, Parsed

_RETRIES = 8  # of one task, when nodes are lost
_PER_CORE = 2  # pages under way for each core, so that none waits for the build to send it one
_SPARE = 2  # blocks of texts that wait while every core embeds one
_COUNTED = 5.0  # seconds for which the number of cores is believed
_POLL = 1.0  # seconds
_PATIENCE = 60.0  # seconds without any node: as long as some need to come back
T = TypeVar("T")
_loaded: dict[str, Embedder] = {}  # what this process keeps from task to task: one embedder, by the id of its work


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a node, with all that it needs to know."""

    id: str  # no other has it
    load: Callable[[], Embedder]  # gives its embedder, fit for its own processor
    fingerprint: dict[str, Any]  # that the embedder has to have
    software: dict[str, str]  # that the node has to have, see `_software`


@dataclass(frozen=True, slots=True)
class _Task(Generic[T]):
    """A task that runs on a node."""

    cluster: "Cluster"
    ref: Any

    def result(self) -> T:
        """Wait for the result. Raises the error of the task, or ClusterError if no node is left to run it."""
        result: T = self.cluster.wait_for(self.ref)
        return result


class Cluster:
    """The nodes of the cluster that this process is connected to, see `indexer.pipeline.ray_session`."""

    def __init__(self, load: Callable[[], Embedder], fingerprint: Mapping[str, Any], cores: int = 1) -> None:
        """Check that every node can take tasks, which compiles the model there if necessary.

        What loads the embedder of a node is a function that can be imported there, or a partial of one; its
        fingerprint must be that of this machine. Raises NodeDiffers, or ClusterError if no node has so many cores.
        """
        self._work = Work(uuid4().hex, load, dict(fingerprint), _software())
        self._cores = cores
        self._counted_at, self._tasks_at_once = -_COUNTED, 0
        self._read = ray.remote(num_cpus=cores, max_retries=_RETRIES)(_read_page)
        self._encode = ray.remote(num_cpus=cores, max_retries=_RETRIES)(_encode_texts)
        nodes = self._nodes()
        if not nodes:
            raise ClusterError(f"no node of the cluster has {cores} cores for a task: lower --threads")
        # without a core of its own, so that it need not wait for one where the cluster is busy
        check = ray.remote(num_cpus=0, max_retries=_RETRIES)(_check_node)
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        started = [check.options(scheduling_strategy=strategy).remote(self._work) for strategy in strategies]
        for node, task in zip(nodes, started, strict=True):
            try:
                self.wait_for(task)
            except ClusterError:
                if node in self._nodes():  # one that is lost meanwhile is as if it never was
                    raise

    @property
    def pages(self) -> int:
        """Return how many pages may be under way."""
        return max(AHEAD, _PER_CORE * self._room())

    @property
    def blocks(self) -> int:
        """Return how many blocks of texts may be under way."""
        return self._room() + _SPARE

    def read(self, page: Page, chunk: ChunkConfig, ocr: Ocr) -> _Task[Parsed]:
        """Start to read and cut a page; the result may raise ParseError."""
        return _Task(self, self._read.remote(replace(page, reading=None), chunk, ocr, self._work))

    def encode(self, texts: Sequence[str], *, tokens: bool = False) -> _Task[tuple[DocumentTokens, float]]:
        """Start to embed texts, in their order; see `indexer.pipeline.workers.Workers`."""
        return _Task(self, self._encode.remote(list(texts), self._work, tokens))

    def wait_for(self, task: Any) -> Any:
        """Wait for a task and return its result; see `_Task.result`."""
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

    def _room(self) -> int:
        """Return how many tasks the cluster can run at the same time."""
        if time.monotonic() - self._counted_at > _COUNTED:
            self._tasks_at_once = int(ray.cluster_resources().get("CPU", 0.0)) // self._cores
            self._counted_at = time.monotonic()
        return self._tasks_at_once


def _software() -> dict[str, str]:
    """Return what decides, beside the model, whether two machines make the same chunks and vectors of a page."""
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "reading": str(READER_VERSION)}
    for name in ("pilotlight", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def _check_node(work: Work) -> None:
    """Load the embedder, and compile it where this machine has not done so yet; raises NodeDiffers."""
    _embedder(work)


def _read_page(page: Page, chunk: ChunkConfig, ocr: Ocr, work: Work) -> Parsed:
    """Read and cut a page on a node; return it without its sections, which nothing needs any more.

    Raises ParseError, NodeDiffers, or ConfigError where this machine has no OCR and the one that builds does.
    """
    embedder = _embedder(work)
    began = time.perf_counter()
    here = ocr if ocr.obstacle else find(replace(ocr.config, mode="on"))  # its folders may be other ones
    document = parse(page, ocr=here)
    read_at = time.perf_counter()
    chunks = Chunker(embedder, chunk).split(document)
    seconds = {"parse": read_at - began, "chunk": time.perf_counter() - read_at}
    return Parsed(replace(document, sections=()), chunks, seconds)


def _encode_texts(texts: Sequence[str], work: Work, tokens: bool) -> tuple[DocumentTokens, float]:
    """Embed texts on a node; return their vectors, with their tokens if wanted, and the seconds that it took.

    Raises NodeDiffers, or EmbedderError where the model gives no numbers.
    """
    embedder = _embedder(work)
    began = time.perf_counter()
    return encode_documents(embedder, texts, tokens=tokens), time.perf_counter() - began


def _embedder(work: Work) -> Embedder:
    """Return the embedder of this process, loaded once and compared with the one of the machine that builds."""
    if work.id not in _loaded:
        where = f"the node {ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:8]})"
        _compare(where, _software(), work.software)
        try:
            embedder = work.load()
        except EmbedderError as error:
            raise NodeDiffers(f"{where} cannot embed: {error}") from error
        _compare(where, embedder.fingerprint, work.fingerprint)
        _loaded.clear()
        _loaded[work.id] = embedder
    return _loaded[work.id]


def _compare(where: str, has: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in expected.keys() | has.keys():
        if has.get(name) != expected.get(name):
            raise NodeDiffers(
                f"{where} has {name} {has.get(name)}, and this machine {expected.get(name)}: make them alike, or take "
                "it out of the cluster; nothing was published"
            )
