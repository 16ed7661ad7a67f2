"""Whoever accepts documents and indexes them is killed at steps of every kind: what was accepted is there then."""

import signal

from indexer.generation.generation import Generation
from indexer.sources.pushed_store import SOURCE, PushedStore
from tests.faults.conftest import Disturb, Job, Undisturb, of_every_kind
from tests.faults.world import PUSHES, World, accepted, rebuild, state

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
