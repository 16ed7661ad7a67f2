"""`pilotlight warm`, and the servers that depend on it: no compiler, other machines' packages, a full disk."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedder import EmbedderConfig
from embedder.engines.plan import Plan
from tests.system.conftest import request, run, serving

pytestmark = [pytest.mark.model, pytest.mark.longest]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that warm has filled for the default settings."""
    folder = tmp_path_factory.mktemp("warm") / "cache"
    done = run("warm", "--json", "--cache-dir", folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["built"]
    assert report["bytes"] > 1_000_000
    assert report["seconds"] > 0
    steps = [line.partition(": ")[2] for line in done.stderr.splitlines() if line.startswith("compiling ")]
    assert any(step.startswith("compiling the native encoder, ") for step in steps), done.stderr
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


def test_a_second_time_it_is_there(cache):
    before = sorted(path.name for path in (cache / "packages").iterdir())
    report = json.loads(run("warm", "--json", "--cache-dir", cache).stdout)
    assert not report["built"]
    assert report["package"] == str(cache / "packages" / before[0])
    done = run("warm", "--cache-dir", cache)
    assert "was compiled before" in done.stdout
    assert done.stderr == ""
    assert sorted(path.name for path in (cache / "packages").iterdir()) == before


def test_engines_without_a_package():
    done = run("warm", "--engine", "eager")
    assert "needs no compilation" in done.stdout
    assert json.loads(run("warm", "--engine", "eager", "--json").stdout)["package"] is None


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
    for verb in (["warm"], ["serve", "--index", index], ["search", "x", "--index", index]):
        done = run(*verb, "--cache-dir", tmp_path / "c")
        assert done.returncode == 2
        assert done.stdout == ""
        line = done.stderr.splitlines()[-1]
        assert "apt-get install g++" in line
        assert f"copied (isa power11, not {record['isa']})" in line


def test_a_damaged_package_is_never_loaded(cache, tmp_path):
    copy = shutil.copytree(cache, tmp_path / "c")
    (folder,) = (copy / "packages").iterdir()
    victim = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    done = run("warm", "--cache-dir", copy)
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


@pytest.fixture(scope="module")
def one_layer_index(one_layer, source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one-layer") / "index"
    done = run("index", source, "--index", folder, "--model", one_layer, "--quiet")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("engine", "size"),
    # too little for the compiler's files, for the weights, for headers, for code with the weights in it, which are
    # twice as large in fp32 as in the bf16 that a processor may choose
    [("auto", "100k"), ("auto", "8m"), ("aot", "2m"), ("aot", "60m"), ("compile", "100k")],
)
def test_a_full_disk(tmp_path, one_layer, one_layer_index, engine, size):
    disk = tmp_path / "disk"
    with mounted(disk, f"size={size}"):
        verb = ["warm", "--precision", "fp32"] if engine != "compile" else ["search", "x", "--index", one_layer_index]
        done = run(*verb, "--model", one_layer, "--engine", engine, "--cache-dir", disk / "c")
        assert done.returncode == 2
        assert "no space left to build" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
        assert list((disk / "c").glob("packages/*")) == list((disk / "c").glob("packages/.[!.]*")) == []


def test_a_full_temporary_folder(tmp_path, one_layer, one_layer_index, monkeypatch):
    """The compiler of the engine `compile` works there, and so the one that makes anew what it has made before."""
    if compiler := os.environ.get("PILOTLIGHT_TEST_COMPILER"):
        monkeypatch.setenv("CXX", compiler)
    with mounted(tmp_path / "disk", "size=100k"):
        chosen = ["--model", one_layer, "--engine", "compile", "--cache-dir", tmp_path / "c"]
        done = run("search", "x", "--index", one_layer_index, *chosen, TMPDIR=str(tmp_path / "disk"))
    assert done.returncode == 2
    assert "no space left to build the model: free some, or set cache_dir and TMPDIR" in done.stderr.splitlines()[-1]


def test_a_cache_from_which_no_code_is_run(tmp_path):
    with mounted(tmp_path / "disk", "noexec"):
        done = run("warm", "--cache-dir", tmp_path / "disk" / "c")
    assert done.returncode == 2
    assert f"{tmp_path}/disk/c is on a disk mounted noexec" in done.stderr


@pytest.mark.parametrize("engine", ["auto", "aot"])
@pytest.mark.parametrize(
    ("file", "spoil", "told"),
    [
        ("model.safetensors", lambda data: data[:-100], "model.safetensors is damaged"),
        ("model.safetensors", None, "model.safetensors is missing"),
        ("config.json", lambda data: data.replace(b"hidden_size", b"hidden_sighs"), "has no valid"),
        ("config.json", lambda data: data.replace(b'"intermediate_size": 1536', b'"intermediate_size": 1600'), "fit"),
        (
            "config.json",
            lambda data: data.replace(b'"num_attention_heads": 12', b'"num_attention_heads": 0'),
            "has no valid",
        ),
    ],
)
def test_a_spoilt_model_is_named(tmp_path, engine, file, spoil, told):
    model = shutil.copytree(Plan(EmbedderConfig()).spec.folder, tmp_path / "model")
    if spoil is None:
        (model / file).unlink()
    else:
        before = (model / file).read_bytes()
        (model / file).write_bytes(spoil(before))
        assert (model / file).read_bytes() != before
    done = run("warm", "--engine", engine, "--model", model, "--cache-dir", tmp_path / "c")
    assert done.returncode == 2, done.stdout
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
