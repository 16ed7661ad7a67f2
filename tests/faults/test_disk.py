"""A disk that fills at any step, writers that want the same index, and pushes whose index is killed under them."""

import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from indexer.errors import BuildLocked, IndexUnwritable
from indexer.generation.generation import Generation
from indexer.sources.pushed_store import SOURCE, PushedStore
from tests.faults.conftest import NEEDS_ROOM, ROOT, Disturb, Job, Undisturb, of_every_kind
from tests.faults.world import ACTIONS, PUSHES, World, accepted, assert_tidy, live, rebuild, state


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
from indexer.publish.publish import writer_lock
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
        for action in (ACTIONS[name] for name in ACTIONS if name not in ("export", "read", "serve", "note", "send")):
            with pytest.raises(BuildLocked, match=told):
                action(world, index)
        (index / "lock").write_bytes(b"[" * 5_000)
        with pytest.raises(BuildLocked, match="has just started"):
            rebuild(index, *world.sources)
        holder.kill()
    assert state(index) == before
    rebuild(index, *world.sources)
    assert_tidy(index)


_MOST = 24  # times that it is killed


def pushed_after(count: int) -> dict[str, str]:
    """What is to be found once so many of the changes were accepted."""
    last = dict(PUSHES[:count])
    return {f"https://wiki.test/{name}": text for name, text in last.items() if text is not None}


def test_nothing_that_was_accepted_is_lost(disturb: Disturb, undisturbed: Undisturb, world: World) -> None:
    steps = undisturbed(world, "push", world.index).steps
    chosen = of_every_kind(steps)
    accepting = [step for step in chosen if "/pushed/" in steps[step - 1][1]]
    building = [step for step in chosen if step not in accepting]
    assert accepting
    jobs = [Job("kill", step) for step in accepting[:: max(1, 2 * len(accepting) // _MOST)]]
    jobs += [Job("kill", step) for step in building[:: max(1, 2 * len(building) // _MOST)]]
    killed, counts = 0, set()
    for outcome in disturb(world, "push", world.index, jobs):
        killed += outcome.signal == signal.SIGKILL
        assert state(outcome.index) is not None
        receipts = accepted(outcome.index)
        count = receipts.stat().st_size if receipts.exists() else 0
        counts.add(count)
        rebuild(outcome.index, *world.sources)
        generation = Generation.open(outcome.index)
        documents = [each for each in generation.documents() if each["source"] == SOURCE]
        generation.close()
        found = {each["url"]: each["passages"][0]["text"] for each in documents}
        # the one after the last may have been on the disk already, when its sender had yet to be told
        assert found in (pushed_after(count), pushed_after(count + 1)), outcome
        assert PushedStore(outcome.index).facts().queued == 0
    assert killed > len(jobs) // 2
    assert {0, len(PUSHES)} <= counts
