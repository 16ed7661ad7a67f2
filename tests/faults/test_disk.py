"""A disk that fills at any step, and writers that want the same index."""

import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from indexer.errors import BuildLocked, IndexUnwritable
from tests.faults.conftest import NEEDS_ROOM, ROOT, Disturb, Job, Undisturb, of_every_kind
from tests.faults.world import ACTIONS, World, assert_tidy, live, rebuild, state


@pytest.mark.parametrize(
    ("action", "stride"),  # test_kill.py stops at each of them
    [("first build", 9), ("build", 5), ("remove", 15), ("rollback", 2), ("import", 7)],
)
def test_the_disk_fills_at_steps_of_every_kind(
    disturb: Disturb, undisturbed: Undisturb, world: World, action: str, stride: int
) -> None:
    template = None if action == "first build" else world.index
    action = action.removeprefix("first ")
    before = state(world.index) if template else None
    after = undisturbed(world, action, template)
    newest = undisturbed(world, "build", world.index).content
    steps = of_every_kind(after.steps)[::stride]
    jobs = [Job("full", step) for step in steps if after.steps[step - 1][0] in NEEDS_ROOM]
    told = 0
    for outcome in disturb(world, action, template, jobs):
        assert outcome.signal == 0, outcome
        found = state(outcome.index)
        if outcome.error:
            told += 1
            assert outcome.error.startswith("IndexUnwritable: "), outcome
            assert str(outcome.index) in outcome.error
            assert "\n" not in outcome.error
            assert found == before or (found and found.content == after.content), outcome
        else:
            assert found
            assert found.content == after.content, outcome
        building = outcome.index / "building"
        assert not building.exists() or list(building.iterdir()) == [], outcome
        rebuild(outcome.index, *world.sources)
        assert live(outcome.index).content == newest
        assert_tidy(outcome.index)
    assert told


def test_a_disk_that_is_too_full_to_begin(index: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    before = state(index)
    for action in ("build", "remove", "import"):
        with pytest.raises(IndexUnwritable, match=r"0 MB free, and \d+ MB are needed"):
            ACTIONS[action](world, index)
    assert state(index) == before
    assert_tidy(index)


HOLD = """
import sys
from pathlib import Path
from indexer.publish.collections import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_holds_the_lock(index: Path, world: World) -> None:
    before = state(index)
    (index / "lock").write_bytes(b"\xff garbage")
    command, pipe = [sys.executable, "-c", HOLD, str(index)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        told = f"process {holder.pid} on .*, since 20.*; wait for it to end, or stop it"
        for action in (ACTIONS[name] for name in ACTIONS if name != "export"):
            with pytest.raises(BuildLocked, match=told):
                action(world, index)
        (index / "lock").write_bytes(b"[" * 5_000)
        with pytest.raises(BuildLocked, match="only just started"):
            rebuild(index, *world.sources)
        holder.kill()
    assert state(index) == before
    rebuild(index, *world.sources)
    assert_tidy(index)
