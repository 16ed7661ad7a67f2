import faulthandler
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from indexer.pipeline.cluster import ray_session

NODES = 3
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray spells it so; its 15 leave workers nothing beside tests
# Ray ends the process of a client that has waited so many seconds for a cluster: that of the tests, minutes later.
PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
os.environ[PATIENCE] = "86400"


class Machines:
    """Three nodes of one core each, however many this machine has."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster  # here, or every test process would import it

        self._options = {"num_cpus": 1, "object_store_memory": 80_000_000}
        head = {"include_dashboard": False, **self._options}
        self.ray = RayCluster(initialize_head=True, head_node_args=head)
        self._others = [self._add() for _ in range(NODES - 1)]

    @property
    def address(self) -> str:
        return str(self.ray.address)

    def others(self) -> dict[str, object]:
        """By id, the nodes that can be killed: not that of the test itself."""
        return {node.node_id: node for node in self._others}

    def kill(self, node_id: str) -> None:
        """End a node and all that runs there without a word."""
        node = self.others()[node_id]
        self._others.remove(node)
        self.ray.remove_node(node, allow_graceful=False)

    def mend(self) -> None:
        """Put nodes in the place of those that were killed."""
        while len(self._others) < NODES - 1:
            self._others.append(self._add())
        self.ray.wait_for_nodes()

    def _add(self):
        return self.ray.add_node(**self._options)


@pytest.fixture(scope="module")
def machines(pytestconfig: pytest.Config) -> Iterator[Machines]:
    handler = signal.getsignal(signal.SIGTERM)
    machines = Machines()
    with ray_session(machines.address):
        yield machines
    machines.ray.shutdown()
    signal.signal(signal.SIGTERM, handler)  # Ray's nodes have their own, which would outlive them here
    faulthandler.disable()  # Ray has removed its handlers, without which a crash in a later test says nothing
    faulthandler.enable(pytestconfig.stash[fault_handler_stderr_fd_key])


@pytest.fixture
def connected(machines: Machines) -> Machines:
    """All nodes are there, and this process is one of the cluster."""
    machines.mend()
    return machines


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Forty pages that become documents, and one each that fails and that has no text."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(40):
        words = " ".join(f"word{(number * 7 + k * k) % 501}" for k in range(240))
        write(
            folder / f"page{number}.html",
            f"<title>Page {number}</title><h1>Page {number}</h1><p>{words}.</p><h2 id=more>More</h2><p>{words[:400]}.",
        )
    write(folder / "bad.txt", "\x00\x01 not text")
    write(folder / "empty.html", "<title>Nothing</title>")
    return folder


def write(path: Path, text: str) -> None:
    """Write a file that looks old: what is said of one that may still be changing depends on the second."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_700_000_000 + len(text),) * 2)
