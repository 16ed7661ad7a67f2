"""Index the PostgreSQL manual with Ray on this machine, and without: what a cluster costs where it gains nothing."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmark.crawling import MANUALS
from benchmark.report import Row
from benchmark.timing import interleave, ratio, summarise

_LOCAL = "Pilotlight"
_RAY = "Pilotlight on Ray"


def ray_build(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Time whole processes in turns, from their start to their end; passages of `chunks` tokens."""
    folder = MANUALS["PostgreSQL"]
    if not folder.is_dir():
        return [{"name": "PostgreSQL", "contestant": "not installed"}]
    turns = itertools.count()
    reports: dict[str, dict[str, Any]] = {}

    def run(name: str, *flags: str) -> None:
        line = [sys.executable, "-m", "rag.commands.cli", "index", str(folder), "--quiet", "--json", *flags]
        line += ["--index", str(work / f"index-{next(turns)}"), "--chunk-tokens", str(chunks)]
        # Ray's processes give way to all others: on a machine that is shared they would be measured with less of it
        environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "RAY_worker_niceness": "0"}
        done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | environment)
        reports[name] = json.loads(done.stdout)

    contestants = {_LOCAL: lambda _: run(_LOCAL), _RAY: lambda _: run(_RAY, "--ray", "local")}
    seconds = interleave(contestants, [None], repeat, rehearsals=0)
    return [
        {
            "name": f"index {reports[name]['documents']} pages, {reports[name]['chunks']} chunks",
            "contestant": name,
            **summarise(values),
            "build_s": reports[name]["seconds"]["total"],
            "ratio": ratio(seconds[_LOCAL], values),
        }
        for name, values in seconds.items()
    ]
