"""A build under a limit of memory: it ends well, or with one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from indexer import memory
from indexer.errors import MemoryShort
from indexer.memory import Limit
from rag.answer.sentences import SentenceSplitter
from tests.indexer.pipeline.incremental import Work

MB = 1 << 20


@pytest.mark.parametrize("kilobytes", [300_000, 450_000, 580_000])
def test_too_little_is_one_line(kilobytes: int, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Cats sleep.")
    index = ["-m", "rag.commands.cli", "index", str(tmp_path / "a.md"), "--index", str(tmp_path / "index")]
    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -v {kilobytes}; exec "$0" "$@"', sys.executable, *index],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert "a build needs 600 MB of memory, and ulimit -v allows" in line


def group(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("path", "most", "expected"),
    [
        ("/", {"": "1000"}, 1000),
        ("/a/b", {"a/b": "max", "a": "2000"}, 2000),
        ("/a/b", {"a/b": "3000", "a": "2000"}, 2000),
        ("/not/seen/here", {"": "4000"}, 4000),
        ("/a", {"a": "max"}, None),
        ("/../..", {"": "5000"}, 5000),
    ],
)
def test_the_limit_of_a_cgroup_is_found(path: str, most: dict[str, str], expected: int | None, tmp_path: Path) -> None:
    for folder, value in most.items():
        group(tmp_path / folder, memory__max=value)
    found = [limit.bytes for limit in memory._of_cgroup(tmp_path, path)]
    assert min(found, default=None) == expected


def test_a_build_ends_before_it_is_ended_and_keeps_the_live_index(
    work: Work, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = work.build(docs).generation
    (docs / "new.md").write_text("# New\n\nA page.")
    short = Limit(1_000 * MB, "the cgroup", group(tmp_path / "group", memory__stat=f"anon {950 * MB}\n"))
    monkeypatch.setattr(memory, "limit", lambda: short)
    with pytest.raises(MemoryShort, match="950 MB of memory are in use, and the cgroup allows 1,000 MB"):
        work.build(docs)
    monkeypatch.undo()
    assert work.build(docs).generation != before
    assert work.build(docs).documents == 4


def test_only_the_beginning_of_a_long_text_is_split_into_sentences() -> None:
    text = "。字" * 100_000
    beginning = SentenceSplitter(10).feed(text, is_last=True)
    assert beginning == SentenceSplitter().feed(text[:40], is_last=True)[:10]
