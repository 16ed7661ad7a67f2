#!/usr/bin/env python3
"""Measure how long the second build of a repository reads: files of a short text each, ten of which have changed.

Passages are embedded by nothing, so that what is measured is reading. Prints one JSON object.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from indexer.build.build import build
from indexer.build.progress import Progress
from indexer.config import BuildConfig, CrawlLimits
from indexer.sources.git.repository import read_repository
from tests.dummy import DummyEmbedder

CHANGED = 10


def stream(files: int, changed: int) -> bytes:
    """What `git fast-import` reads to make a commit of these files; the first ones are another version."""
    lines = ["commit refs/heads/main", "committer t <t@t.test> 1 +0000", "data 0", ""]
    for number in range(files):
        version = "second" if number < changed else "first"
        text = f"# File {number}\n\nThe {version} text of file {number} in folder {number % 100}.\n"
        lines += [f"M 100644 inline {number % 100}/{number}.md", f"data {len(text)}", text]
    return "\n".join(lines).encode()


def main() -> None:
    """Build twice, and read a third time without building."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        repository, index = Path(folder, "repository.git"), Path(folder, "index")
        subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", repository], check=True)

        def commit(changed: int) -> None:
            command = ["git", f"--git-dir={repository}", "fast-import", "--quiet", "--force"]
            subprocess.run(command, input=stream(files, changed), check=True)

        def built() -> dict[str, object]:
            progress = Progress(io.StringIO(), "quiet")
            return build([source], index, DummyEmbedder(), BuildConfig(), progress=progress).as_dict()

        source, found = f"git+file://{repository}@main", {}
        for name, changed in (("first", 0), ("second", CHANGED), ("unchanged", CHANGED)):
            commit(changed)
            report = built()
            found[name] = {key: report[key] for key in ("fetched", "unchanged", "embedded", "seconds")}
        begun = time.perf_counter()
        items = sum(1 for _ in read_repository(source, CrawlLimits(), lambda due: None))
        found["all"] = {"items": items, "seconds": round(time.perf_counter() - begun, 2)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
