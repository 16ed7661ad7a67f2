"""A Git repository as a source: how long builds of it take, and how much of that is reading."""

import io
import subprocess
import time
from pathlib import Path

from benchmark.report import OURS, Row
from benchmark.timing import summarise
from embedder import Embeddings
from indexer.config import BuildConfig
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport

_CHANGED = 10  # files between two builds


def git(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Build a repository of so many files of a short text each, and again `repeat` times with ten of them changed.

    `source` is not used.
    """
    embedder = Embeddings()
    repository, index = work / "repository.git", work / "index"

    def built(version: int) -> tuple[float, BuildReport]:
        address = write(repository, chunks, version)
        start = time.perf_counter()
        progress = Progress(io.StringIO(), "quiet")
        report = build([address], index, embedder, BuildConfig(), progress=progress)
        return time.perf_counter() - start, report

    rows = [_row("first build", [built(0)])]
    return [*rows, _row(f"{_CHANGED} files changed", [built(version) for version in range(1, repeat + 1)])]


def write(repository: Path, files: int, version: int = 0) -> str:
    """Commit so many files to a bare repository, which is made if it is not there; return it as a source."""
    if not repository.exists():
        subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", repository], check=True)
    command = ["git", f"--git-dir={repository}", "fast-import", "--quiet", "--force"]
    subprocess.run(command, input=_commit(files, version), check=True)
    return f"git+file://{repository}@main"


def _row(what: str, builds: list[tuple[float, BuildReport]]) -> Row:
    report = builds[-1][1]
    reading = sum(report.as_dict()["seconds"].get(stage, 0.0) for stage in ("fetch", "parse"))
    note = f"{report.fetched:,} files read, {report.embedded:,} passages embedded, {reading:.1f} s of reading"
    return {"name": what, "contestant": OURS, **summarise([seconds for seconds, _ in builds]), "note": note}


def _commit(files: int, version: int) -> bytes:
    """What `git fast-import` reads to make a commit of all files, the first ten of them in a version of their own."""
    lines = ["commit refs/heads/main", "committer t <t@t.test> 1 +0000", "data 0", ""]
    for number in range(files):
        text = f"# File {number}\n\nVersion {version if number < _CHANGED else 0} of file {number}.\n"
        lines += [f"M 100644 inline {number % 100}/{number}.md", f"data {len(text)}", text]
    return "\n".join(lines).encode()
