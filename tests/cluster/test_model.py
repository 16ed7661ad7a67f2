"""The command, with the real model: a cluster makes the vectors that this machine makes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster.conftest import Machines
from tests.indexer.incremental import Work

DOCS = Path(__file__).resolve().parents[2] / "docs"


def index(folder: Path, *flags: str) -> dict[str, Any]:
    line = [sys.executable, "-m", "rag.cli", "index", str(DOCS), "--index", str(folder), "--json", "--quiet", *flags]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.model
def test_the_command_gives_the_same_index(machines: Machines, tmp_path: Path) -> None:
    reports = index(tmp_path / "cluster", "--ray", machines.address), index(tmp_path / "local")
    there, here = (
        {name: report[name] for name in report if name not in ("generation", "seconds")} for report in reports
    )
    assert there == here
    theirs, ours = Work(tmp_path / "cluster").content(), Work(tmp_path / "local").content()
    assert theirs.pop("pages") == ours.pop("pages")
    assert theirs.keys() == ours.keys()
    for url, (fields, chunks, vectors, terms) in ours.items():
        assert (*theirs[url][:2], theirs[url][3]) == (fields, chunks, terms)
        np.testing.assert_allclose(theirs[url][2], vectors, atol=1e-3)
