"""A disk that fills, and two builds that want the same index."""

import subprocess
import sys
from pathlib import Path

import pytest

from indexer.errors import BuildLocked
from indexer.generation import current_id
from indexer.lock import writer_lock
from tests.faults.conftest import ROOT, check, rebuild

FULL = """
import resource, signal, sys
from pathlib import Path
from indexer.errors import IndexUnwritable
from tests.faults.conftest import rebuild
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    rebuild(Path(sys.argv[1]), Path(sys.argv[2]))
except IndexUnwritable as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [0, 3_000, 40_000, 100_000])
def test_files_that_cannot_grow(index: Path, tmp_path: Path, limit: int) -> None:
    """A limit on file size stands for a full disk: it stops SQLite, FAISS or the manifest, by how small it is."""
    source = tmp_path / "more"
    source.mkdir()
    (source / "fish.txt").write_text("\n\n".join(f"Paragraph {i} about fish. " * 30 for i in range(1000)))
    old = current_id(index)
    answer = subprocess.run(
        [sys.executable, "-c", FULL, str(index), str(source), str(limit)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert str(index) in answer.stdout
    assert answer.stdout.count("\n") == 1
    assert check(index) == old
    assert list((index / "building").iterdir()) == []
    rebuild(index, source)


HOLD = """
import sys
from pathlib import Path
from indexer.lock import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_holds_the_lock(index: Path, source: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(index)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(BuildLocked, match=f"process {child.pid} on "):
            rebuild(index, source)
        check(index)
        child.kill()
    rebuild(index, source)


def test_a_damaged_note_in_the_lock_does_no_harm(index: Path, source: Path) -> None:
    (index / "lock").write_bytes(b"\xff garbage")
    with writer_lock(index):
        (index / "lock").write_bytes(b"[]")
        with pytest.raises(BuildLocked, match="only just started"):
            rebuild(index, source)
    rebuild(index, source)
