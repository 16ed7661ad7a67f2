"""Packages in their private folder: found, built, verified, refused; and the library, compiled, loaded and refused."""

import ctypes
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embedder import cpu
from embedder.engines import library, package
from embedder.engines.package import check_private, ensure, open_private
from embedder.engines.plan import PackageKey
from embedder.errors import CacheError, PackageError

KEY = PackageKey(model="m", engine="aot", fingerprint="f" * 64, precision="bf16", isa="avx2", torch="2.13.0", threads=2)


def fake_build(folder):
    (folder / "model.bin").write_bytes(b"code" * 100)


@pytest.fixture
def built(tmp_path):
    return ensure(tmp_path / "cache", KEY, fake_build) / "model.bin"


def test_built_once_and_found_again(tmp_path, built):
    def never(folder):
        raise AssertionError("built twice")

    assert ensure(tmp_path / "cache", KEY, never) == built.parent
    assert [p.name for p in built.parent.parent.iterdir()] == [KEY.folder_name]  # no leftovers
    assert built.parent.stat().st_mode & 0o777 == 0o700


def test_a_package_of_another_machine_is_refused_by_name(built, tmp_path):
    record = built.parent / "package.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"isa": "amx"}))
    with pytest.raises(PackageError, match="built for isa 'amx', not 'avx2'"):
        ensure(tmp_path / "cache", KEY, fake_build)


@pytest.mark.parametrize("spoil", ["flip", "truncate", "empty", "record", "no record"])
def test_a_damaged_package_is_named(built, tmp_path, spoil):
    data = built.read_bytes()
    if spoil == "flip":
        built.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif spoil == "truncate":
        built.write_bytes(data[:50])
    elif spoil == "empty":
        built.write_bytes(b"")
    elif spoil == "record":
        (built.parent / "package.json").write_text("[]")
    else:
        (built.parent / "package.json").unlink()
    with pytest.raises(PackageError, match=r"model\.bin|package\.json"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_a_package_that_others_can_write_to_is_refused(built, tmp_path):
    built.chmod(0o666)
    with pytest.raises(CacheError, match="written by others"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_packages_used_longest_ago_are_removed(tmp_path, monkeypatch):
    keys = [dataclasses.replace(KEY, threads=threads) for threads in range(1, 6)]
    for age, key in zip((50, 10, 40, 30), keys, strict=False):
        os.utime(ensure(tmp_path, key, fake_build), (time.time() - 1000 * age,) * 2)
    first = ensure(tmp_path, keys[0], fake_build)  # used again
    monkeypatch.setattr(package, "MAX_CACHE_BYTES", 3 * sum(path.stat().st_size for path in first.iterdir()) + 10)
    ensure(tmp_path, keys[4], fake_build)
    left = {path.name for path in (tmp_path / "packages").iterdir()}
    assert left == {keys[i].folder_name for i in (0, 1, 4)}


def test_files_that_nothing_vouches_for_are_not_loaded(built, tmp_path):
    (built.parent / "extra.so").write_bytes(b"code")
    with pytest.raises(PackageError, match=r"extra\.so is not in package\.json"):
        ensure(tmp_path / "cache", KEY, fake_build)


def test_what_a_killed_build_left_is_removed(built, tmp_path):
    left = built.parent.parent / ".building-killed"
    left.mkdir()
    (left / "half").write_bytes(b"half")
    ensure(tmp_path / "cache", dataclasses.replace(KEY, threads=3), fake_build)
    assert not left.exists()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_leaves_the_package_before_it_usable(small_disk):
    before = ensure(small_disk / "cache", KEY, fake_build)

    def build(folder):
        (folder / "model.bin").write_bytes(bytes(1 << 20))

    with pytest.raises(PackageError, match=r"\(.*No space left on device.*\): free disk space or memory"):
        ensure(small_disk / "cache", dataclasses.replace(KEY, threads=3), build)
    assert [path.name for path in before.parent.iterdir()] == [before.name]
    assert ensure(small_disk / "cache", KEY, build) == before


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_writable_by_others_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(CacheError, match="written by others"):
        open_private(tmp_path)


def test_foreign_owner_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match="owned by user"):
        check_private(tmp_path)


def test_a_link_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CacheError, match="symbolic link"):
        open_private(tmp_path / "link")


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
print(package.library_file(plan), library.has_wheel_library(), package.needs_compiler(plan))
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
    line = [sys.executable, *"-m pip wheel --quiet --no-deps --no-build-isolation .".split()]
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
    with pytest.raises(PackageError, match=r"has a library whose interface differs .*: remove it to build it again"):
        library.load_library(compiled)
