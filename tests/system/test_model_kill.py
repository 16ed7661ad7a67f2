"""`kill -9` in the middle of a change of model: of the build, and of a worker that loads the second model."""

import fcntl
import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.forked import start
from tests.system.conftest import request, run, serving, wait_for, write_pages
from tests.system.test_model_stores import asking, done, served_by
from tests.system.test_overload import children

pytestmark = [pytest.mark.model, pytest.mark.longest]

STEPS = ("documents.sqlite", "vectors.faiss", "lexical/meta.json", "manifest.json")


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, str]:
    """An index, and its generation."""
    (tmp_path / "source").mkdir()
    write_pages(tmp_path / "source")
    return tmp_path / "index", done("index", tmp_path / "source", "--index", tmp_path / "index")["generation"]


def test_builds_with_another_model_are_killed_at_each_step(built):
    index, first = built
    with serving(index, "--workers", "1") as url, asking(url) as answers:
        wait_for(lambda: served_by(answers, first, last=3), "an answer")
        published = {first}
        for step in STEPS:
            with open(os.devnull, "r+") as null, tempfile.TemporaryFile("w+") as said:
                line = ["index", "--index", str(index), "--precision", "int8", "--full"]
                build = start(line, (null, null, said), dict(os.environ))
                wait_for(partial(has_come_to, step, index, build), step)
                build.kill()
                build.wait(timeout=60)
            live = (index / "CURRENT").read_text().strip()  # the build may have been too fast
            published.add(live)
            wait_for(partial(served_by, answers, live, last=3), "what is live")
        last = done("index", "--index", index, "--precision", "int8", "--full")["generation"]
        wait_for(lambda: served_by(answers, last, last=3), "the other model")
        assert {each for _, each in answers} <= {*published, last}
    assert run("verify", "--index", index).returncode == 0


def has_come_to(step, index, build):
    """Whether a build has begun a file, or has ended."""
    return any(index.glob(f"building/*/{step}")) or build.poll() is not None


@contextmanager
def nobody_loads(cache: Path):
    """Keep workers that are about to load a second model waiting until the block ends."""
    folder = os.open(cache / "models", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def test_a_worker_that_loads_the_second_model_is_killed(built, tmp_path, monkeypatch):
    index, first = built
    monkeypatch.setenv("PILOTLIGHT_CACHE_DIR", str(tmp_path / "cache"))
    second = done("index", "--index", index, "--precision", "int8")["generation"]
    done("rollback", "--index", index)
    # whose process is found by its name
    with serving(index, "--workers", "2", python=sys.executable) as url, asking(url, broken=3) as answers:
        server = next(
            pid for pid in children(os.getpid()) if "rag.commands.cli" in Path(f"/proc/{pid}/cmdline").read_text()
        )
        wait_for(lambda: served_by(answers, first), "an answer")
        for generation in (second, first, second):
            with nobody_loads(tmp_path / "cache"):
                done("rollback", generation, "--index", index)
                wait_for(lambda: "loading the model" in request(f"{url}/readyz")[1]["reason"], "a worker to load")
                victim = children(server)[0]
                os.kill(victim, signal.SIGKILL)
            wait_for(partial(replaced, server, victim), "another worker")
            wait_for(partial(served_by, answers, generation), "one generation in all workers")
        assert {each for status, each in answers if status} == {first, second}
        assert [each["precision"] for each in request(f"{url}/readyz")[1]["models"]] == ["int8"]


def replaced(server: int, victim: int) -> bool:
    """Whether a killed worker has a successor."""
    return victim not in children(server) and len(children(server)) == 2
