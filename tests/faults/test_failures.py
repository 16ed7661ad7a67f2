"""A call of each kind fails once, somewhere in an action: the index is then the old or new one, and nothing is left.

Which calls that are follows from the seed of the run.
"""

import errno
import random
import signal

import pytest

from tests.faults.conftest import Disturb, Job, Undisturb
from tests.faults.world import World, assert_tidy, live, rebuild, state

pytestmark = [pytest.mark.longest, pytest.mark.thorough]

FAULTS = [
    *(("fail", kind, errno.EIO) for kind in ("write", "fsync", "read", "rename", "unlink", "mkdir", "truncate")),
    *(("fail", kind, errno.EINTR) for kind in ("write", "read")),
    *(("fail", kind, errno.EMFILE) for kind in ("open", "look")),
    *(("fail", kind, errno.ENOMEM) for kind in ("mmap", "malloc")),
    *(("short", kind, errno.EIO) for kind in ("write", "read")),
]
FEW = 5  # faults of one action, unless there is time
ONLY_READ = ("read", "serve", "note")
ABORTED = (signal.SIGABRT, signal.SIGSEGV)  # Rust ends a process that has no memory


@pytest.mark.parametrize("action", ["build", "send", "remove", "rollback", "import", *ONLY_READ])
def test_a_call_fails(
    disturb: Disturb, undisturbed: Undisturb, world: World, action: str, run_seed: int, pytestconfig: pytest.Config
) -> None:
    dice, is_long = random.Random(f"{run_seed} {action}"), pytestconfig.option.long
    before, after = state(world.index), undisturbed(world, action, world.index).content
    newest = undisturbed(world, "build", world.index).content
    faults = FAULTS if is_long else dice.sample(FAULTS, FEW)
    kinds = dict.fromkeys(kind for _, kind, _ in faults)
    counted = disturb(world, action, world.index, [Job(kind=kind) for kind in kinds])
    counts = {outcome.job.kind: len(outcome.steps) for outcome in counted}
    jobs = [
        Job(how, step, kind, code)
        for how, kind, code in faults
        for step in dice.sample(range(1, counts[kind] + 1), min(20 if is_long else 1, counts[kind]))
    ]
    for outcome in disturb(world, action, world.index, jobs):
        assert outcome.signal == 0 or (outcome.job.kind == "malloc" and outcome.signal in ABORTED), outcome
        assert "\n" not in outcome.error, outcome
        assert outcome.is_ours, outcome
        found = state(outcome.index)
        assert found == before or (found and found.content == after and action not in ONLY_READ), outcome
        assert found != before or outcome.error or outcome.signal or after == before.content, outcome
        if action not in ONLY_READ:
            rebuild(outcome.index, *world.sources)
            assert action == "send" or live(outcome.index).content == newest, outcome
            assert_tidy(outcome.index)
