import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from tests.faults.world import Content, World, live

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.c")
SEGMENT = tuple(f"lexical/*.{suffix}" for suffix in ("fast", "fieldnorm", "idx", "pos", "store", "term"))
NEEDS_ROOM = frozenset({"open", "mkdir", "write", "fsync", "rename"})  # steps that fail on a full disk
AHEAD = 8  # jobs under way while the outcome of one is looked at


@dataclass(frozen=True)
class Job:
    """How an action is disturbed: see killer.py."""

    how: str = "count"
    step: int = 0
    kind: str = ""  # the only one that is counted; empty: all that change something
    code: int = 0  # error with which it fails


@dataclass(frozen=True, repr=False)
class Outcome:
    """What became of it."""

    job: Job
    index: Path
    signal: int
    error: str
    steps: list[tuple[str, str]]  # kind, path below the index
    is_ours: bool = True  # whether the error is typed

    def __repr__(self) -> str:
        at = self.steps[self.job.step - 1] if 0 < self.job.step <= len(self.steps) else "the end"
        end = f"signal {self.signal}, error {self.error!r}"
        return f"{self.job} of {len(self.steps)}, {at}: {end}"


def of_every_kind(steps: Sequence[tuple[str, str]]) -> list[int]:
    """Numbers, from 1, of every flush, rename and removal; of what is done again and again, the first, middle and last.

    That is to write to one file, or to make files or folders in one folder. Tantivy gives a temporary file another name
    each time.
    """
    chosen, again = [], defaultdict(list)
    for number, (kind, path) in enumerate(steps, start=1):
        folder, _, name = path.rpartition("/")
        if kind in ("open", "mkdir") or (kind == "write" and name.startswith(".tmp")):
            again[kind, folder].append(number)
        elif kind == "write":
            again[kind, path].append(number)
        else:
            chosen.append(number)
    for numbers in again.values():
        chosen += {numbers[0], numbers[len(numbers) // 2], numbers[-1]}
    return sorted(chosen)


@dataclass(frozen=True)
class Undisturbed:
    """An action as it should be."""

    steps: list[tuple[str, str]]
    content: Content  # that is live afterwards


Disturb = Callable[..., Iterator[Outcome]]
Undisturb = Callable[[World, str, Path | None], Undisturbed]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("faults are injected through LD_PRELOAD, which takes Linux and a C compiler")
    target = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", target, FAULTS, "-ldl", "-lpthread"], check=True)
    return target


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Made once: whoever changes its index copies it first."""
    world = World(tmp_path_factory.mktemp("world"))
    world.make()
    return world


@pytest.fixture(scope="session")
def disturb(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disturb]:
    """Run an action once for each job: on a copy of an index, on nothing, or all one after another on one `index`.

    Outcomes come as they are made, so that looking at one goes on beside making the next; its copy is removed then.
    All are made by one process, because its imports take seconds.
    """
    processes: list[subprocess.Popen[str]] = []
    is_idle = True

    def start() -> subprocess.Popen[str]:
        if not is_idle:  # a test failed, and what it had asked for would be taken for what is asked for now
            end()
        if not processes:
            environment = os.environ | {"LD_PRELOAD": str(library)}
            command, pipe = [sys.executable, "-m", "tests.faults.killer"], subprocess.PIPE
            processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment))
        return processes[0]

    def end() -> None:
        for process in processes:
            with process:
                process.kill()
        processes.clear()

    def run(
        world: World, action: str, template: Path | None, jobs: Sequence[Job], *, index: Path | None = None
    ) -> Iterator[Outcome]:
        nonlocal is_idle
        folder = tmp_path_factory.mktemp("copies")
        process, is_idle = start(), False
        assert process.stdin is not None
        assert process.stdout is not None
        indexes = [index or folder / str(number) for number in range(len(jobs))]
        of_all = (action, str(world.root), template and str(template))
        lines = (json.dumps([*of_all, str(path), *astuple(job)]) for job, path in zip(jobs, indexes, strict=True))
        print(*islice(lines, AHEAD if index is None else 1), sep="\n", file=process.stdin, flush=True)
        for job, path in zip(jobs, indexes, strict=True):
            ended = json.loads(process.stdout.readline())
            try:
                steps = [(kind, name) for kind, name in ended["steps"]]
                yield Outcome(job, path, ended["signal"], ended["error"], steps, ended["is_ours"])
            finally:
                if index is None:
                    shutil.rmtree(path)
            for line in islice(lines, 1):
                print(line, file=process.stdin, flush=True)
        is_idle = True

    yield run
    end()


@pytest.fixture(scope="session")
def undisturbed(disturb: Disturb) -> Undisturb:
    """Run an action as it should be, the first time it is asked for."""

    @cache
    def run(world: World, action: str, template: Path | None) -> Undisturbed:
        [(result, steps, content)] = [
            ((outcome.signal, outcome.error), outcome.steps, live(outcome.index).content)
            for outcome in disturb(world, action, template, [Job()])
        ]
        assert result == (0, "")
        return Undisturbed(steps, content)

    return run


@pytest.fixture
def index(world: World, tmp_path: Path) -> Path:
    """A copy of the world's index, to be damaged."""
    return shutil.copytree(world.index, tmp_path / "index")
