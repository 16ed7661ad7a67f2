"""Building on a cluster gives what building here gives, whatever becomes of its nodes."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.config import BuildConfig, ChunkConfig
from indexer.errors import ClusterError, IndexMissing, NodeDiffers
from indexer.generation.layout import current_id
from indexer.pipeline.build import build
from indexer.pipeline.cluster import Cluster
from indexer.pipeline.progress import Progress
from tests.cluster.conftest import Machines, write
from tests.cluster.holding import HoldingEmbedder
from tests.dummy import DummyEmbedder
from tests.indexer.pipeline.incremental import Work
from tests.rag.conftest import wait_for
from tests.system.conftest import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))[:4]  # all of them take this cluster a minute and a half
CONFIG = BuildConfig(chunk=ChunkConfig(tokens=40))


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.pipeline.draft._TOGETHER", 16)


def make(index: Path, source: Path, cluster: Cluster | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build; what the index holds, and the report without what differs from run to run."""
    progress = Progress(sys.stderr, "quiet")
    report = build([str(source)], index, DummyEmbedder(), CONFIG, progress=progress, cluster=cluster).as_dict()
    assert set(report["seconds"]) == {"fetch", "parse", "model", "chunk", "embed", "write", "publish", "total"}
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


def index(source: Path, folder: Path, *flags: str) -> dict[str, Any]:
    done = run("index", source, "--index", folder, "--json", "--quiet", *flags)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_command_gives_the_same_index_with_the_real_model(connected: Machines, tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for name in PAGES:
        shutil.copy2(DOCS / name, source)
    reports = index(source, tmp_path / "cluster", "--ray", connected.address), index(source, tmp_path / "local")
    there, here = (
        {name: report[name] for name in report if name not in ("generation", "seconds")} for report in reports
    )
    assert there == here
    theirs, ours = Work(tmp_path / "cluster").content(), Work(tmp_path / "local").content()
    assert theirs.pop("pages") == ours.pop("pages")
    assert theirs.keys() == ours.keys()
    for url, (fields, chunks, vectors, terms) in ours.items():
        assert (*theirs[url][:2], theirs[url][3]) == (fields, chunks, terms)
        np.testing.assert_allclose(theirs[url][2], vectors, atol=1e-3)


@contextmanager
def killing(machines: Machines, folder: Path, stages: list[str], kill: Callable[[str, int], None]):
    """While the block runs, kill what holds in each of the stages, and then let the others go on."""

    def work() -> list[str]:
        killed = []
        try:
            for stage in stages:
                victims: list[list[str]] = []

                def held(stage: str = stage, victims: list[list[str]] = victims) -> bool:
                    names = [path.name.split("-")[2:] for path in folder.glob(f"{stage}-held-*")]
                    victims[:] = [name for name in names if name[0] in machines.others()]
                    return bool(victims)

                # the node of the test holds first at times, and Ray may take most of a minute to start another process
                wait_for(held, 180)
                node, pid = victims[0]
                kill(node, int(pid))
                killed.append(node)
                (folder / f"{stage}-go").touch()
        finally:
            for stage in stages:  # or the build would wait forever
                (folder / f"{stage}-go").touch()
        return killed

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


@pytest.mark.parametrize("is_node", [True, False])
def test_what_is_lost_costs_nothing_but_time(connected: Machines, pages: Path, tmp_path: Path, is_node: bool) -> None:
    """One node, or process, is killed while it cuts a page, another while it embeds."""
    cluster = dummy_cluster(partial(HoldingEmbedder, tmp_path))

    def kill(node: str, pid: int) -> None:
        _ = connected.kill(node) if is_node else os.kill(pid, signal.SIGKILL)

    with killing(connected, tmp_path, ["cut", "embed"], kill) as killed:
        result = make(tmp_path / "cluster", pages, cluster)
    assert len(killed.result()) == 2
    assert result == make(tmp_path / "local", pages)


def test_without_nodes_it_ends(
    connected: Machines, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.pipeline.cluster._PATIENCE", 0.5)
    cluster = dummy_cluster(partial(HoldingEmbedder, tmp_path))
    monkeypatch.setattr(cluster, "_nodes", list)
    with pytest.raises(ClusterError, match="all nodes of the cluster that could run a task are lost"):
        make(tmp_path / "cluster", pages, cluster)
    with pytest.raises(IndexMissing):
        current_id(tmp_path / "cluster")


def test_a_node_with_another_torch_is_refused(connected: Machines, tmp_path: Path) -> None:
    info = tmp_path / "torch-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    node = connected.add(PYTHONPATH=path)
    try:
        with pytest.raises(NodeDiffers, match=rf"the node \S+ \({node[:8]}\) has torch 9\.9\.9, and this machine"):
            dummy_cluster()
    finally:
        connected.kill(node)


def test_nodes_that_cannot_be_used_are_refused(connected: Machines) -> None:
    with pytest.raises(NodeDiffers, match="has dimension 32, and this machine 64"):
        dummy_cluster(partial(DummyEmbedder, 32))
    with pytest.raises(ClusterError, match="no node of the cluster has 2 cores for a task"):
        Cluster(DummyEmbedder, DummyEmbedder().fingerprint, cores=2)
