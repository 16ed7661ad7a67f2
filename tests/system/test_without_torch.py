"""What the native engine needs, and no more: an environment in which PyTorch cannot be imported."""

import json
import re
import shutil
import venv
from importlib import metadata
from pathlib import Path

import pytest

from embedder import cpu
from embedder.engines import library
from tests.system.conftest import ROOT, request, run, serving

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        cpu.detect().isa not in library.ISAS.get(library.architecture(), {}), reason="there are no native kernels here"
    ),
]
SERVING = ROOT / "scripts" / "deploy" / "pilotlight-serve.txt"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with the packages of the list alone, taken from this one."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in set(re.findall(r"^([\w.-]+)==", SERVING.read_text(encoding="utf-8"), re.MULTILINE)):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            (site / top).symlink_to(str(distribution.locate_file(top)))
    (site / "pilotlight.pth").write_text(f"{ROOT}\n")
    own = metadata.distribution("pilotlight")
    (site / "pilotlight-0.dist-info").symlink_to(str(own.locate_file(f"pilotlight-{own.version}.dist-info")))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def index(bare: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that was made there, and the cache beside it."""
    folder = tmp_path_factory.mktemp("bare-index")
    done = run("index", source, "--index", folder / "index", "--cache-dir", folder / "cache", "--quiet", python=bare)
    assert done.returncode == 0, done.stderr
    return folder / "index"


def test_it_indexes_searches_and_serves(bare: Path, index: Path) -> None:
    cache = ["--cache-dir", index.parent / "cache"]
    done = run("search", "partial index", "--index", index, "--json", *cache, python=bare)
    assert json.loads(done.stdout)["hits"][0]["title"] == "Partial indexes", done.stderr
    with serving(index, "--cache-dir", str(index.parent / "cache"), python=bare) as url:
        status, body = request(f"{url}/api/v1/search", {"query": "partial index", "k": 1})
        assert (status, body["hits"][0]["title"]) == (200, "Partial indexes")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--engine", "aot"], "engine aot needs PyTorch, which is not installed: pip install pilotlight"),
        (["--engine", "eager"], "or choose the engine native"),
        (["--model", "ELECTRA"], "its architecture is electra, and engine aot needs PyTorch"),
        (["--model", f"owner/model@{'0' * 40}"], "No module named 'huggingface_hub'"),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    bare: Path, index: Path, packaged_model: Path, tmp_path: Path, flags: list[str], told: str
) -> None:
    electra = shutil.copytree(packaged_model, tmp_path / "electra")
    config = electra / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "electra"}))
    arguments = [str(electra) if flag == "ELECTRA" else flag for flag in flags]
    done = run("search", "x", "--index", index, *arguments, "--cache-dir", tmp_path, python=bare)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert told in line
