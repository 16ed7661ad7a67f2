"""Building on a cluster gives what building here gives, whatever becomes of its nodes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.config import BuildConfig
from indexer.errors import ClusterError, IndexMissing
from indexer.generation.manifest import current_id
from indexer.pipeline.build import build
from indexer.pipeline.cluster import Cluster, ray_session
from indexer.pipeline.progress import Progress
from tests.cluster.conftest import PATIENCE, Machines, write
from tests.cluster.holding import HoldingEmbedder
from tests.dummy import DummyEmbedder
from tests.indexer.pipeline.incremental import Work
from tests.security.memory import descendants
from tests.system.conftest import run
from tests.waiting import wait_for

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONFIG = BuildConfig(chunk_tokens=40)


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.pipeline.draft._CHUNKS_PER_CALL", 16)


def make(index: Path, source: Path, cluster: Cluster | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build; what the index holds, and the report without what differs from run to run."""
    progress = Progress(sys.stderr, quiet=True)
    report = build([str(source)], index, DummyEmbedder(), CONFIG, progress=progress, cluster=cluster).as_dict()
    assert set(report["seconds"]) == {"fetch", "read", "model", "chunk", "embed", "write", "publish", "total"}
    return Work(index).content(), {name: report[name] for name in report if name not in ("generation", "seconds")}


def dummy_cluster(load: Callable[[], DummyEmbedder] = DummyEmbedder) -> Cluster:
    return Cluster(load, DummyEmbedder().fingerprint)


def test_the_index_and_the_report_are_those_of_a_local_build(connected: Machines, pages: Path, tmp_path: Path) -> None:
    local = make(tmp_path / "local", pages)
    assert (local[1]["documents"], len(local[1]["failed"]), len(local[1]["skipped"])) == (40, 1, 1)
    cluster = dummy_cluster()
    assert make(tmp_path / "cluster", pages, cluster) == local
    write(pages / "page7.html", "<title>Page 7</title><p>Something else.")
    assert make(tmp_path / "cluster", pages, cluster) == make(tmp_path / "local", pages)
    report = make(tmp_path / "cluster", pages, cluster)[1]
    assert (report["published"], report["embedded"]) == (False, 0)


def test_the_command_embeds_there_with_the_real_model(connected: Machines, tmp_path: Path) -> None:
    page = DOCS / "concepts.md"
    reports, contents = [], []
    for name, flags in (("there", ["--ray", connected.address]), ("here", [])):
        done = run("index", page, "--index", tmp_path / name, "--json", "--quiet", *flags)
        assert done.returncode == 0, done.stderr
        reports.append({key: value for key, value in json.loads(done.stdout).items() if key in ("chunks", "embedded")})
        contents.append(Work(tmp_path / name).content()[page.as_uri()])
    assert reports[0] == reports[1]
    (_, chunks, theirs, _), (_, expected, ours, _) = contents
    assert chunks == expected
    np.testing.assert_allclose(theirs, ours, atol=1e-3)


@pytest.mark.parametrize("is_node", [True, False])
def test_what_is_lost_costs_nothing_but_time(connected: Machines, pages: Path, tmp_path: Path, is_node: bool) -> None:
    """A node, or a process, is killed while it embeds."""
    cluster = dummy_cluster(partial(HoldingEmbedder, tmp_path))

    def held() -> list[list[str]]:
        names = [path.name.split("-")[1:] for path in tmp_path.glob("held-*")]
        return [name for name in names if name[0] in connected.others()]

    def kill() -> None:
        try:
            # the node of the test holds first at times, and Ray may take most of a minute to start another process
            wait_for(held, "a node to embed")
            node, pid = held()[0]
            _ = connected.kill(node) if is_node else os.kill(int(pid), signal.SIGKILL)
        finally:
            (tmp_path / "go").touch()  # or the build would wait forever

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        result = make(tmp_path / "cluster", pages, cluster)
        killed.result()
    assert result == make(tmp_path / "local", pages)


def test_without_nodes_it_ends(
    connected: Machines, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.pipeline.cluster._MAX_SECONDS_WITHOUT_NODES", 0.5)
    cluster = dummy_cluster(partial(HoldingEmbedder, tmp_path))
    monkeypatch.setattr(cluster, "_has_nodes", lambda: False)
    with pytest.raises(ClusterError, match="all nodes of the cluster that could run a task are lost"):
        make(tmp_path / "cluster", pages, cluster)
    with pytest.raises(IndexMissing):
        current_id(tmp_path / "cluster")
    (tmp_path / "go").touch()  # or the cores of the nodes stay taken


def test_nodes_that_cannot_be_used_are_refused(connected: Machines, pages: Path, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="has dimension 32, and this machine 64"):
        make(tmp_path / "index", pages, dummy_cluster(partial(DummyEmbedder, 32)))
    with pytest.raises(ClusterError, match="no node of the cluster has 2 cores for a task"):
        Cluster(DummyEmbedder, DummyEmbedder().fingerprint, cores=2)


# The connection to a cluster


def test_addresses_that_are_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="cannot use the Ray cluster head: "), ray_session("head"):
        pass
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    with pytest.raises(ClusterError, match="must be auto, local, or the HOST:PORT"), ray_session("auto"):
        pass


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['ray'] = None; from rag.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    line = [sys.executable, "-c", script, "index", str(tmp_path), "--index", str(tmp_path / "index"), "--ray", "local"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("pilotlight: building on a cluster needs the extra ray: pip install 'pilotlight[ray]'\n")


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_stopped_leaves_nothing_running(sent: signal.Signals, pages: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "tests.cluster.holding", str(pages), str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", PATIENCE)}
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment) as build:
        try:
            wait_for(lambda: list(tmp_path.glob("held-*")) or build.poll() is not None)
            # Ray's own helpers see a minute after their node was killed that it is gone
            commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(build.pid)}
            started = [pid for pid, command in commands.items() if b"Agent" not in command]
            assert len(started) > 4
            build.send_signal(sent)
            _, said = build.communicate(timeout=300)
        finally:
            build.kill()
    assert build.returncode == (-signal.SIGKILL if sent == signal.SIGKILL else 130), said
    wait_for(lambda: not any(map(is_running, started[1:])))
    assert not (tmp_path / "index" / "CURRENT").exists()
