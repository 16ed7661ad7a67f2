"""The native library: its interface is that of the header, and a wheel carries it, so nothing is compiled there."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from embedder import cpu
from embedder.engines import library
from embedder.errors import PackageError

ROOT = Path(__file__).parents[3]
CODE = """
import os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
os.environ["CXX"] = "/nonexistent/g++"
from embedder.config import EmbedderConfig
from embedder.engines import library, package
from embedder.engines.plan import Plan
plan = Plan(EmbedderConfig(engine="native", cache_dir=Path(sys.argv[1])))
print(package.library_file(plan), library.has_built(), package.needs_compiler(plan))
library.load_library(package.library_file(plan))
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
    where, built, needs_compiler = done.stdout.split()
    assert where == str(tmp_path / "installed/embedder/native" / f"encoder-{library.architecture()}.so")
    assert (built, needs_compiler) == ("True", "False")
    asked = subprocess.run(["readelf", "--dynamic", str(next(tmp_path.rglob("encoder-*.so")))], capture_output=True)
    assert b"libstdc++" not in asked.stdout  # which may be older, or not there


ISA = cpu.detect().isa
HEADER = (library.SOURCES / "interface.h").read_text()


def words(text):
    """Split `kUnknownToken` and `UNKNOWN_TOKEN` alike."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text.removeprefix("k")).lower()


@pytest.mark.parametrize(
    "enum", [library.Precision, library.Pooling, library.Action, library.Activation, library.Refusal]
)
def test_enums_are_those_of_the_header(enum):
    named = re.search(rf"enum class {enum.__name__} : int32_t {{ (.*) }}", HEADER)[1].split(", ")
    assert [words(member.name) for member in enum] == [words(name) for name in named]


@pytest.mark.parametrize(("name", "struct"), [("pl_shape", library.CShape), ("pl_step", library.CStep)])
def test_structs_are_those_of_the_header(name, struct):
    body = re.sub("//.*", "", re.search(rf"struct {name} {{(.*?)\n}}", HEADER, re.DOTALL)[1])
    fields = [name for line in body.split(";") for name in re.findall(r"\b\w+(?=,|$)", line)]
    assert [name for name, _ in struct._fields_] == fields


@pytest.mark.skipif(ISA not in library.ISAS.get(library.architecture(), {}), reason="there are no native kernels here")
def test_a_library_of_one_instruction_set_has_no_other(tmp_path):
    target = tmp_path / library.LIBRARY
    library.compile_library(target, library.architecture(), isas=[ISA])
    library.load_library(target)
    symbols = subprocess.run(["nm", "-C", str(target)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\bkernels_(\w+)", symbols)) == {ISA}


def test_a_library_of_these_sources_is_loaded(compiled):
    assert library.load_library(compiled).pl_create(b"none", None, None, 0, None, 1) is None


class Longer(library.CShape):
    _fields_ = (("dropout", ctypes.c_float),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ABI_VERSION", 0),
        ("CShape", Longer),
        ("PANEL", 2 * library.PANEL),
        ("INTERLEAVE", {library.architecture(): {"fp32": 2}}),
    ],
)
def test_another_interface_is_told(compiled, monkeypatch, name, value):
    monkeypatch.setattr(library, name, value)
    with pytest.raises(PackageError, match=r"has a library with another interface .*: remove it to build it again"):
        library.load_library(compiled)
