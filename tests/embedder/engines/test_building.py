"""A package is built by a process of its own; whoever asked is left as it was, and so is the disk."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedder import EmbedderConfig
from embedder.engines import package
from embedder.engines.package import ensure_package, is_built, library_file, needs_compiler
from embedder.engines.plan import Plan
from embedder.errors import CompilerMissing, EmbedderError, ModelError, PackageError
from tests.waiting import wait_for

pytestmark = pytest.mark.model
ASK = """
import json, os, signal, sys, tempfile, threading
from pathlib import Path
from embedder import EmbedderConfig
from embedder.engines.package import ensure_package
from embedder.engines.plan import Plan

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have had it ignored
plan = Plan(EmbedderConfig(model=sys.argv[1], engine="native", cache_dir=Path(sys.argv[2])))
before, steps = dict(os.environ), []
def build():
    ensure_package(plan, plan.package_key, lambda step: steps.append((step, threading.current_thread().name)))
thread = threading.Thread(target=build, name="asking")
thread.start()
thread.join()
print(json.dumps({
    "environment": dict(os.environ) == before,
    "temporary": tempfile.tempdir,
    "torch": "torch" in sys.modules,
    "threads": sorted({name for _, name in steps}),
    "first": steps[0][0],
}))
"""


@pytest.fixture(scope="module")
def model(make_model: Callable[[str], Path]) -> Path:
    folder = make_model("bert")
    try:
        Plan(EmbedderConfig(model=str(folder), engine="native"))
    except EmbedderError as error:
        pytest.skip(str(error))
    return folder


@pytest.fixture
def plan(model: Path, tmp_path: Path) -> Plan:
    return Plan(EmbedderConfig(model=str(model), engine="native", cache_dir=tmp_path / "cache"))


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a script in the compiler's place."""

    def put(script: str) -> None:
        path = tmp_path / "compiler"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    return put


def build(plan: Plan, steps: list[str] | None = None) -> Path:
    key = plan.package_key
    assert key is not None
    return ensure_package(plan, key, (steps if steps is not None else []).append)


def left(plan: Plan) -> list[str]:
    return [path.name for path in (plan.config.cache_dir / "packages").iterdir()]


def packed(plan: Plan) -> list[str]:
    """Return the package that is there when the compiler begins: the weights."""
    key = plan.package_key
    assert key is not None
    return [key.folder_name]


def test_models_and_precisions_share_a_library(make_model: Callable[[str], Path], tmp_path: Path) -> None:
    steps: list[str] = []
    plans = [
        Plan(EmbedderConfig(model=str(make_model(kind)), engine="native", precision=precision, cache_dir=tmp_path))
        for kind, precision in (("bert", "fp32"), ("bert", "bf16"), ("mpnet", "fp32"))
    ]
    for plan in plans:
        assert not is_built(plan)
        build(plan, steps)
        assert is_built(plan)
        assert not needs_compiler(plan)
    assert steps.count("compiling the native encoder") == 1
    assert steps.count("packing the weights") == len(plans)
    assert len({library_file(plan) for plan in plans}) == 1


def test_whoever_asks_is_left_as_it_was(model: Path, tmp_path: Path) -> None:
    """From a thread, in another folder that has a module of torch's name, and with warnings as errors."""
    (tmp_path / "torch.py").write_text("raise AssertionError('a module of the current folder')")
    root = str(Path(package.__file__).parents[1])
    script = f"import sys; sys.path.remove({str(tmp_path)!r}) if {str(tmp_path)!r} in sys.path else None\n"
    script += f"sys.path = [p for p in sys.path if p] + [{root!r}]\n" + ASK
    line = [sys.executable, "-W", "error", "-c", script, str(model), "cache"]
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "environment": True,
        "temporary": None,
        "torch": False,
        "threads": ["asking"],
        "first": "packing the weights",
    }
    assert len(list((tmp_path / "cache" / "packages").iterdir())) == 2  # the weights, and the library


def test_errors_come_back_as_they_were(make_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = make_model("bert")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    plan = Plan(EmbedderConfig(model=str(folder), engine="aot", cache_dir=tmp_path / "cache"))
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        build(plan)
    assert left(plan) == []


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("kill -KILL $PPID", r"the process that compiles \S+ \(native, \w+\) crashed \(SIGKILL\): free memory"),
        (
            'echo "x.s: Fatal error: x.o: No space left on device" >&2; exit 1',
            r"\(x.s: Fatal error: x.o: No space left",
        ),
        ("echo 'x.cpp:1: error: what is this' >&2; exit 1", "error: what is this"),
    ],
)
def test_what_becomes_of_compilers(plan: Plan, compiler: Callable[[str], None], script: str, told: str) -> None:
    compiler(script)
    with pytest.raises(PackageError, match=told) as raised:
        build(plan)
    assert "\n" not in str(raised.value)
    assert left(plan) == packed(plan)


def test_without_a_compiler_the_package_to_install_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    with pytest.raises(CompilerMissing, match=r"apt-get install g\+\+"):
        build(plan)


@pytest.fixture
def held(
    plan: Plan, model: Path, tmp_path: Path, compiler: Callable[[str], None]
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that asks for a package whose compiler does not end, and the process id of that compiler."""
    compiler(f"echo $$ > {tmp_path}/$$; mv {tmp_path}/$$ {tmp_path}/started; exec sleep 1000")  # several at once
    line = [sys.executable, "-c", ASK.partition("def build")[0] + "ensure_package(plan, plan.package_key)"]
    asking = subprocess.Popen([*line, str(model), str(plan.config.cache_dir)], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: (tmp_path / "started").exists() or asking.poll() is not None)
        yield asking, int((tmp_path / "started").read_text())
    finally:
        asking.kill()
        asking.communicate()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_with_whoever_asked_the_build_ends(
    held: tuple[subprocess.Popen[str], int], plan: Plan, sent: signal.Signals
) -> None:
    asking, compiling = held
    assert len(left(plan)) == 2  # the weights, and what the compiler works on
    asking.send_signal(sent)
    asking.wait(timeout=300)
    wait_for(lambda: not _runs(compiling) and left(plan) == packed(plan))


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
