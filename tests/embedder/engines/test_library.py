"""A wheel carries the native library of its architecture, so nothing is compiled where it is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from embedder.engines import library

ROOT = Path(__file__).parents[3]
CODE = """
import os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from embedder.engines import library
os.environ["CXX"] = "/nonexistent/g++"
target = Path(sys.argv[1])
library.provide(target)
print(library.__file__, library.has_built(), (target / library.LIBRARY).stat().st_size)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the sources, as building leaves files beside them."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in ("embedder", "indexer", "rag", "web"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    line = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(target),
        ".",
    ]
    done = subprocess.run([*line, "-w", str(target)], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = target.glob("*.whl")
    return made


def test_it_is_named_for_its_platform_and_every_python(wheel: Path) -> None:
    _, _, python, abi, platform = wheel.stem.split("-")
    assert (python, abi) == ("py3", "none")
    assert platform.endswith(library.architecture())


def test_what_it_installs_compiles_nothing(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path / "installed"), str(wheel)], check=True)
    target = tmp_path / "package"
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(target)],
        cwd=tmp_path / "installed",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, built, size = done.stdout.split()
    assert where.startswith(str(tmp_path / "installed"))
    assert built == "True"
    asked = subprocess.run(["readelf", "--dynamic", str(next(tmp_path.rglob("encoder-*.so")))], capture_output=True)
    assert b"libstdc++" not in asked.stdout  # which may be older, or not there
    assert int(size) == (tmp_path / "installed/embedder/native" / f"encoder-{library.architecture()}.so").stat().st_size
