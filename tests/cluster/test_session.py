"""Connecting to a cluster, and what is left of it afterwards: nothing."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.errors import ClusterError
from indexer.pipeline.ray_session import ray_session
from tests.rag.conftest import wait_for


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ray://127.0.0.1:10001", "is an address for Ray's client"),
        ("head", "must be auto, local or HOST:PORT"),
        ("127.0.0.1:http", "must be auto, local or HOST:PORT"),
        ("127.0.0.1:99999", "must be auto, local or HOST:PORT"),
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
    ],
)
def test_addresses_that_are_no_cluster(address: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=told), ray_session(address):
        pass
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterError, match=told), ray_session("auto"):
        pass


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rag.commands.cli", *map(str, arguments)]


def test_somebody_else_at_the_address_is_waited_for_a_short_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        line = command("index", tmp_path, "--index", tmp_path / "index", "--ray", address)
        # what Ray waits for, made shorter
        hasty = {"RAY_py_gcs_connect_timeout_s": "1", "RAY_gcs_rpc_server_connect_timeout_s": "1"}
        environment = os.environ | hasty
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"pilotlight: cannot use the Ray cluster {address}: ")
    assert "Traceback" not in done.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['ray'] = None; from rag.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    line = [sys.executable, "-c", script, "index", str(tmp_path), "--index", str(tmp_path / "index"), "--ray", "local"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("pilotlight: building on a cluster needs the extra ray: pip install 'pilotlight[ray]'\n")


def descendants(pid: int) -> set[int]:
    parents: dict[int, set[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents.setdefault(int(fields[1]), set()).add(int(stat.parent.name))
    found, todo = set(), [pid]
    while todo:
        children = parents.get(todo.pop(), set())
        found |= children
        todo += children
    return found


def is_agent(pid: int) -> bool:
    """Ray's own helpers, which see a minute after their node was killed that it is gone."""
    return b"Agent" in Path(f"/proc/{pid}/cmdline").read_bytes()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_stopped_leaves_nothing_running(sent: signal.Signals, pages: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "tests.cluster.holding", str(pages), str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    build = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_for(lambda: list(tmp_path.glob("cut-held-*")) or build.poll() is not None, 120)
        started = {pid for pid in descendants(build.pid) if not is_agent(pid)}
        assert len(started) > 4
        build.send_signal(sent)
        _, said = build.communicate(timeout=60)
    finally:
        build.kill()
    assert build.returncode == (-signal.SIGKILL if sent == signal.SIGKILL else 130), said
    wait_for(lambda: not any(map(alive, started)), 60)
    assert not (tmp_path / "index" / "CURRENT").exists()
