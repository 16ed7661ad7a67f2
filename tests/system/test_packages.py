"""Compiled packages of the model: no compiler, other machines' packages, a full disk."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.conftest import request, run, serving

pytestmark = [pytest.mark.model, pytest.mark.longest]


@pytest.fixture(scope="module")
def cache(index, tmp_path_factory):
    """A cache that a first search has filled, and a second one leaves as it is."""
    folder = tmp_path_factory.mktemp("packages") / "cache"
    done = run("search", "vacuum", "--index", index, "--cache-dir", folder)
    assert done.returncode == 0, done.stderr
    assert "the native encoder, " in done.stderr
    before = sorted(path.name for path in (folder / "packages").iterdir())
    assert run("search", "vacuum", "--index", index, "--cache-dir", folder).stderr == ""
    assert sorted(path.name for path in (folder / "packages").iterdir()) == before
    return folder


@pytest.fixture(autouse=True)
def _no_place_of_another_test(monkeypatch):
    """An engine that this process has compiled leaves its place in the environment, where a user's setting would be."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)


@pytest.fixture
def no_compiler(tmp_path, monkeypatch):
    """No compiler on PATH, nor where CXX says."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "/nonexistent/g++")


def test_a_copied_package_serves_without_a_compiler(cache, index, tmp_path, no_compiler):
    (tmp_path / "c" / "packages").mkdir(parents=True)
    for folder in (cache / "packages").iterdir():
        shutil.copytree(folder, tmp_path / "c" / "packages" / folder.name)
    copy = str(tmp_path / "c")
    answer = json.loads(run("search", "partial index", "--index", index, "--json", "--cache-dir", copy).stdout)
    assert answer["hits"][0]["title"] == "Partial indexes"
    with serving(index, "--cache-dir", copy) as url:
        status, body = request(f"{url}/api/v1/search", {"query": "partial index", "k": 1})
        assert (status, body["hits"][0]["title"]) == (200, "Partial indexes")


def test_without_package_and_compiler_it_is_told_what_there_is(cache, index, tmp_path, no_compiler):
    (tmp_path / "c" / "packages").mkdir(parents=True)
    (folder,) = (cache / "packages").iterdir()
    copy = shutil.copytree(folder, tmp_path / "c" / "packages" / "copied")
    record = json.loads((copy / "package.json").read_text())
    (copy / "package.json").write_text(json.dumps(record | {"isa": "power11"}))
    for verb in (["serve", "--index", index], ["search", "x", "--index", index]):
        done = run(*verb, "--cache-dir", tmp_path / "c")
        assert done.returncode == 2
        assert done.stdout == ""
        line = done.stderr.splitlines()[-1]
        assert "apt-get install g++" in line
        assert f"copied (isa power11, not {record['isa']})" in line


def test_a_damaged_package_is_never_loaded(cache, index, tmp_path):
    copy = shutil.copytree(cache, tmp_path / "c")
    (folder,) = (copy / "packages").iterdir()
    victim = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    done = run("search", "x", "--index", index, "--cache-dir", copy)
    assert done.returncode == 2
    assert f"{victim} is damaged" in done.stderr


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    if subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_cache_from_which_no_code_is_run(tmp_path, index):
    with mounted(tmp_path / "disk", "noexec"):
        done = run("search", "x", "--index", index, "--cache-dir", tmp_path / "disk" / "c")
    assert done.returncode == 2
    assert f"{tmp_path}/disk/c is on a disk mounted noexec" in done.stderr
