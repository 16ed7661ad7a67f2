"""A build is killed at every step it takes; the index is then exactly the old or the new one, and builds again."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.errors import IndexMissing
from indexer.generation import Generation, current_id
from tests.faults.conftest import ROOT, check, copy, rebuild


def kill(source: Path, keep: int, jobs: list[tuple[Path, int]]) -> dict[str, dict[str, int]]:
    command = [sys.executable, "-m", "tests.faults.killer", str(source), str(keep)]
    command += [f"{index}:{step}" for index, step in jobs]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert answer.returncode == 0, answer.stderr
    results: dict[str, dict[str, int]] = json.loads(answer.stdout)
    return results


def steps_of(source: Path, keep: int, index: Path) -> int:
    steps = kill(source, keep, [(index, 0)])[str(index)]["steps"]
    assert steps > 30, "the hooks must see the build"
    return steps


@pytest.mark.parametrize("keep", [1, 2])
def test_killed_at_every_step_of_a_rebuild(index: Path, source: Path, keep: int) -> None:
    old = current_id(index)
    steps = steps_of(source, keep, copy(index, "counting"))
    jobs = [(copy(index, f"index-{step}"), step) for step in range(1, steps + 1)]
    results = kill(source, keep, jobs)
    outcomes = set()
    for copied, step in jobs:
        assert results[str(copied)]["signal"] == -signal.SIGKILL, f"step {step} was not reached"
        live = check(copied)
        outcomes.add("old" if live == old else "new")
        for folder in (copied / "generations").iterdir():
            Generation.open(copied, folder.name).close()
        newest = rebuild(copied, source, keep)
        assert check(copied) == newest, f"after step {step}"
        assert list((copied / "building").iterdir()) == []
        assert len(list((copied / "generations").iterdir())) == keep
    assert outcomes == {"old", "new"}


def test_killed_at_every_step_of_the_first_build(tmp_path: Path, source: Path) -> None:
    steps = steps_of(source, 2, tmp_path / "counting")
    jobs = [(tmp_path / f"index-{step}", step) for step in range(1, steps + 1)]
    kill(source, 2, jobs)
    published = 0
    for index, step in jobs:
        with contextlib.suppress(IndexMissing):
            check(index)
            published += 1
        newest = rebuild(index, source)
        assert check(index) == newest, f"after step {step}"
    assert 0 < published < len(jobs)


def test_killed_from_outside_at_random_moments(index: Path, tmp_path: Path) -> None:
    """A longer build this time, so that the kill falls into the work rather than into the start."""
    source = tmp_path / "more"
    source.mkdir()
    for number in range(300):
        (source / f"{number}.txt").write_text(f"Page {number}\n\n" + f"Text {number} about fish. " * 40)
    old = current_id(index)
    chance = random.Random(7)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.faults.conftest import rebuild\n"
        "print('ready', flush=True)\n"
        "rebuild(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(index), str(source)], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            child.wait(chance.uniform(0.0, 0.3))
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()
        assert check(index) >= old
    newest = rebuild(index, source)
    assert check(index) == newest


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_build_frees_the_lock(index: Path, source: Path, sent: signal.Signals) -> None:
    """The build is stopped while it embeds, and holds the lock."""
    script = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from tests.dummy import DummyEmbedder\n"
        "def encode(self, texts, *, role='document'):\n"
        "    print('embedding', flush=True)\n"
        "    threading.Event().wait(60)\n"
        "DummyEmbedder.encode = encode\n"
        "from tests.faults.conftest import rebuild\n"
        "rebuild(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    old = current_id(index)
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(index), str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"embedding\n"
    child.send_signal(sent)
    child.stdout.close()
    assert child.wait(20) != 0
    assert check(index) == old
    assert check(index) != rebuild(index, source)
    assert list((index / "building").iterdir()) == []
