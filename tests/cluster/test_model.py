"""The command, with the real model: a cluster makes the vectors that this machine makes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster.conftest import Machines
from tests.indexer.incremental import Work

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("quickstart.md", "search.md", "milvus.md", "faq.md")  # all of them take this cluster a minute and a half


def index(source: Path, folder: Path, *flags: str) -> dict[str, Any]:
    line = [sys.executable, "-m", "rag.cli", "index", str(source), "--index", str(folder), "--json", "--quiet", *flags]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.model
def test_the_command_gives_the_same_index(machines: Machines, tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for name in PAGES:
        shutil.copy2(DOCS / name, source)
    reports = index(source, tmp_path / "cluster", "--ray", machines.address), index(source, tmp_path / "local")
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
