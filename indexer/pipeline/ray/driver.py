"""A Ray cluster as the build uses it: it parses and chunks pages, and embeds texts.

Each page and each block of texts is a separate task, which Ray runs again on another node if its node is lost. Tasks
have no effect but their result, and results are taken in the order of the build, so nothing is duplicated or missing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from uuid import uuid4

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from embedder.errors import PilotlightError
from embedder.late_interaction import DocumentTokens
from embedder.protocol import Embedder
from indexer.config import ChunkConfig
from indexer.errors import ClusterError
from indexer.pipeline.machines import AHEAD
from indexer.pipeline.ray import tasks
from indexer.pipeline.ray.serialisation import pack, pack_page, unpack_parsed
from indexer.pipeline.ray.tasks import Work
from indexer.read.ocr.installation import Ocr
from indexer.records import Page, Parsed

_RETRIES = 8  # of one task, when nodes are lost
_PER_CORE = 2  # pages under way for each core, so that none waits for the build to send it one
_SPARE = 2  # blocks of texts that wait while every core embeds one
_COUNTED = 5.0  # seconds for which the number of cores is believed
_POLL = 1.0  # seconds
_PATIENCE = 60.0  # seconds without any node: as long as some need to come back
T = TypeVar("T")


class Result(Generic[T]):
    """Result of a task, available once it is done."""

    def __init__(self, cluster: "Cluster", task: Any, decode: Callable[[Any], T]) -> None:
        self._cluster = cluster
        self._task = task
        self._decode = decode

    def result(self) -> T:
        """Wait for the result. Raises what the task raised, or ClusterError if no node is left to run it."""
        return self._decode(self._cluster.wait_for(self._task))


class Cluster:
    """The nodes of the cluster that this process is connected to, see `indexer.pipeline.ray.session`."""

    def __init__(self, load: Callable[[], Embedder], fingerprint: Mapping[str, Any], cores: int = 1) -> None:
        """Check that every node can take tasks, which compiles the model there if necessary.

        Args:
            load: returns the embedder of a node; a function that can be imported there, or a partial of one.
            fingerprint: fingerprint of this machine's embedder; that of every node must be equal.
            cores: number of cores that one task takes.

        Raises:
            NodeDiffers: a node has other software or another model.
            ClusterError: no node has enough cores.
        """
        self._work = Work(uuid4().hex, load, dict(fingerprint), tasks.software())
        self._cores = cores
        self._counted_at, self._tasks = -_COUNTED, 0
        options = {"num_cpus": cores, "max_retries": _RETRIES}
        self._read = ray.remote(**options)(tasks.read)
        self._encode = ray.remote(**options)(tasks.encode)
        self._check()

    @property
    def pages(self) -> int:
        """How many pages may be under way."""
        return max(AHEAD, _PER_CORE * self._room())

    @property
    def blocks(self) -> int:
        """How many blocks of texts may be under way."""
        return self._room() + _SPARE

    def read(self, page: Page, chunk: ChunkConfig, ocr: Ocr) -> Result[Parsed]:
        """Start to parse and chunk a page; its result may raise ParseError."""
        return Result(self, self._read.remote(pack_page(page), page.body, chunk, ocr, self._work), unpack_parsed)

    def encode(
        self, texts: Sequence[str], took: Callable[[Mapping[str, float]], None], *, tokens: bool = False
    ) -> Result[DocumentTokens]:
        """Start to embed texts, in their order; see `Machines.encode`."""

        def decode(answer: tuple[DocumentTokens, float]) -> DocumentTokens:
            made, seconds = answer
            took({"embed": seconds})
            return made

        return Result(self, self._encode.remote(pack(list(texts)), self._work, tokens), decode)

    def wait_for(self, task: Any) -> Any:
        """Wait for a task and return its result; see `Result.result`."""
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
            raise ClusterError(
                f"a task failed on a node of the cluster: {_last_line(error)}; nothing was published"
            ) from error
        except RayError as error:
            raise ClusterError(
                f"a task was lost {_RETRIES + 1} times with its node or process ({_first_line(error)}); nothing was "
                "published: check that the nodes have enough memory"
            ) from error

    def _check(self) -> None:
        nodes = self._nodes()
        if not nodes:
            raise ClusterError(f"no node of the cluster has {self._cores} cores for a task: lower --threads")
        # without a core of its own, so that it need not wait for one where the cluster is busy
        check = ray.remote(num_cpus=0, max_retries=_RETRIES)(tasks.check)
        strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        started = [check.options(scheduling_strategy=strategy).remote(self._work) for strategy in strategies]
        for node, task in zip(nodes, started, strict=True):
            try:
                self.wait_for(task)
            except ClusterError:
                if node in self._nodes():  # one that is lost meanwhile is as if it never was
                    raise

    def _nodes(self) -> list[str]:
        """Ids of the nodes that can take a task."""
        return [
            node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0.0) >= self._cores
        ]

    def _room(self) -> int:
        """How many tasks the cluster can run at the same time."""
        if time.monotonic() - self._counted_at > _COUNTED:
            self._tasks = int(ray.cluster_resources().get("CPU", 0.0)) // self._cores
            self._counted_at = time.monotonic()
        return self._tasks


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2][:200]
