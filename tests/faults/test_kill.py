"""Whatever writes an index is killed at steps of every kind, or a call of it fails; the index is then exactly the old
or the new one, whole, the next build works, and nothing is left of what was killed."""

import errno
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import NEEDS_ROOM, ROOT, Disturb, Job, Outcome, Undisturb, of_every_kind
from tests.faults.world import World, assert_tidy, live, rebuild, state

pytestmark = [pytest.mark.longest, pytest.mark.thorough]


def assert_killed(outcome: Outcome) -> None:
    """Or it came to its end before: the threads of Tantivy may need a step more or less."""
    is_over = (outcome.signal, outcome.error) == (0, "") and len(outcome.steps) < outcome.job.step
    assert outcome.signal == signal.SIGKILL or is_over, outcome


def named(step: tuple[str, str]) -> tuple[str, str]:
    """Return the kind of a step and its path, without what is different each time."""
    kind, path = step
    return kind, re.sub(r"\d{8}T\d{6}-[0-9a-f]{6}|[0-9a-f]{32}|(?<=\.tmp)\w+", "*", path)


@pytest.mark.parametrize(
    ("action", "share"), [("first build", 0), ("build", 0), ("build", 1), ("remove", 0), ("rollback", 0), ("import", 0)]
)
def test_killed_at_steps_of_every_kind(
    disturb: Disturb,
    undisturbed: Undisturb,
    world: World,
    action: str,
    share: int,
    run_seed: int,
    pytestconfig: pytest.Config,
) -> None:
    template = None if action == "first build" else world.index
    build = undisturbed(world, "build", world.index)
    known = {named(step) for step in build.steps} if action != "build" else set()
    action = action.removeprefix("first ")
    before = state(world.index) if template else None
    after = undisturbed(world, action, template)
    newest = build.content
    written = {Path(path).name for kind, path in after.steps if kind in ("write", "rename")}
    if action == "build":  # or the steps at which it is killed would not be all
        assert {"documents.sqlite", "vectors.faiss", "rows.npy", "manifest.json", "CURRENT.new", "lock"} <= written
        suffixes = {Path(name).suffix for name in written}
        assert {".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term"} <= suffixes
    jobs = [Job("kill", step) for step in of_every_kind(after.steps)]
    last = {path: step for step, (kind, path) in enumerate(after.steps, start=1) if kind == "write"}
    jobs += [Job("tear", step) for step in last.values()]
    if action == "build" and template:  # no test takes more than 20 seconds
        jobs = jobs[share::2]
    dice = random.Random(f"{run_seed} {action} {share}")
    jobs = [  # half in each run, and an eighth of what a build does too
        job
        for job in jobs
        if pytestconfig.option.long
        or job.step in (1, len(after.steps))
        or dice.random() < (0.125 if named(after.steps[job.step - 1]) in known else 0.5)
    ]
    seen = set()
    for outcome in disturb(world, action, template, jobs):
        assert_killed(outcome)
        found = state(outcome.index)
        seen.add("old" if found == before else "new")
        assert found == before or (found and found.content == after.content), outcome
        rebuild(outcome.index, *world.sources)
        assert live(outcome.index, checked=False).content == newest, outcome
        assert_tidy(outcome.index)
    assert seen == {"old", "new"}


@pytest.mark.parametrize("action", ["first build", "build", "remove", "rollback", "import"])
def test_what_a_power_cut_would_lose_is_not_yet_needed(undisturbed: Undisturb, world: World, action: str) -> None:
    """A file is flushed before its folder moves, that before `CURRENT` names it, and that before anything goes."""
    template = None if action == "first build" else world.index
    unflushed: set[str] = set()
    published = False
    for kind, path in undisturbed(world, action.removeprefix("first "), template).steps:
        folder = path.rpartition("/")[0]
        if kind == "fsync":
            unflushed.discard(path)
        elif kind == "rename" and folder == "/building":
            assert not {name for name in unflushed if name == path or name.startswith(f"{path}/")}
            unflushed |= {"/building", "/generations"}
        elif kind == "rename" and path == "/CURRENT.new":
            assert unflushed <= {"", "/building", "/lock"}
            unflushed.add("")
            published = True
        elif published and kind in ("rename", "unlink"):
            assert "" not in unflushed, "the old generation may still be the one that CURRENT names"
        elif kind == "unlink":
            unflushed -= {path}
        else:
            unflushed |= {folder} if kind == "mkdir" else {folder, path} if kind == "open" else {path}
    assert published
    assert unflushed <= {"/lock", "/building", "/generations"}, "what is gone may come back, and does no harm"


@pytest.mark.parametrize("how", ["kill", "tear", "full"])
def test_an_archive_appears_whole_or_not_at_all(disturb: Disturb, world: World, tmp_path: Path, how: str) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    [steps] = [outcome.steps for outcome in disturb(world, "export", nothing, [Job()])]
    before = state(world.index)
    numbered = enumerate(steps, start=1)
    jobs = [Job(how, step) for step, (kind, _) in numbered if how != "full" or kind in NEEDS_ROOM]
    for outcome in disturb(world, "export", nothing, jobs):
        assert outcome.signal == (0 if how == "full" else signal.SIGKILL), outcome
        assert outcome.error.startswith("ArchiveError: cannot write ") or how != "full", outcome
        archive = outcome.index / world.archive.name
        assert not archive.exists() or archive.read_bytes() == world.archive.read_bytes()
        assert how != "full" or list(outcome.index.iterdir()) in ([], [archive]), outcome  # nothing half there
    assert state(world.index) == before


def test_killed_again_and_again(disturb: Disturb, undisturbed: Undisturb, tmp_path: Path) -> None:
    """One index, and no build that ends well: at random steps, and from outside, wherever a build is by then."""
    world, chance = World(tmp_path / "world"), random.Random(7)
    world.root.mkdir()
    world.make(pages=60)
    steps = undisturbed(world, "rebuild", world.index).steps
    ways = ("kill", "tear", "outside", "outside")
    jobs = [Job(chance.choice(ways), chance.randint(1, len(steps))) for _ in range(15)]
    before = live(world.index)
    newest = None
    for outcome in disturb(world, "rebuild", None, jobs, index=world.index):
        found = live(world.index)
        if found.generation == before.generation:
            assert found == before, outcome
        else:
            newest = newest or found.content
            assert found.generation > before.generation, outcome
            assert found.content == newest, outcome
        before = found
    rebuild(world.index, *world.sources, full=True)
    assert newest in (None, live(world.index).content)
    assert_tidy(world.index)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_build_frees_the_lock(index: Path, world: World, sent: signal.Signals) -> None:
    """The build is stopped while it embeds, and holds the lock."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.dummy import DummyEmbedder\n"
        "def encode(self, *_, **__):\n"
        "    print('embedding', flush=True)\n"
        "    sys.stdin.read()\n"
        "DummyEmbedder.encode = DummyEmbedder.encode_ids = encode\n"
        "from tests.faults.world import rebuild\n"
        "rebuild(Path(sys.argv[1]), *sys.argv[2:])\n"
    )
    old = live(index)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(index), *world.sources],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"embedding\n"
            child.send_signal(sent)
            child.communicate(timeout=300)
        finally:
            child.kill()
    assert child.returncode != 0
    assert live(index) == old
    assert rebuild(index, *world.sources) != old.generation
    assert_tidy(index)


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
