"""The first start of a fresh installation: no cache, nothing compiled, one process after another."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from embedder import EmbedderConfig
from embedder.config import PACKAGED
from embedder.engines.plan import Plan
from embedder.errors import EmbedderError
from tests.system import conftest
from tests.system.conftest import request, serving, write_pages

pytestmark = [pytest.mark.model, pytest.mark.longest]
run = partial(conftest.run, python=sys.executable)  # as what was imported before is part of a first start


@pytest.mark.parametrize("engine", ["aot", "native"])
def test_index_search_and_serve(engine: str, one_layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = PACKAGED if engine == "native" else str(one_layer)
    try:
        plan = Plan(EmbedderConfig(model=model, engine=engine))
    except EmbedderError as error:
        pytest.skip(str(error))
    source, home, temporary = tmp_path / "source", tmp_path / "home", tmp_path / "temporary"
    for folder in (source, home, temporary):
        folder.mkdir()
    write_pages(source)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    for name in ("XDG_CACHE_HOME", "PILOTLIGHT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    chosen = ("--index", str(tmp_path / "index"), "--engine", engine, "--model", model)
    done = run("index", source, *chosen, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == 3
    if engine != "compile":  # which compiles anew at every start: the server's is enough
        done = run("search", "partial index", *chosen, "--json")
        assert json.loads(done.stdout)["hits"][0]["title"] == "Partial indexes", done.stderr
    with serving(tmp_path / "index", *chosen[2:], python=sys.executable) as url:
        status, body = request(f"{url}/api/v1/search", {"query": "partial index", "k": 1})
        assert (status, body["hits"][0]["title"]) == (200, "Partial indexes")
    assert [path for path in temporary.rglob("*") if path.is_file()] == []  # torch itself makes an empty folder
    packages = list((home / ".cache" / "pilotlight" / "packages").glob("*"))
    assert len(packages) == (0 if plan.package_key is None else 1)
    if engine == "aot":  # which torch unpacks there
        done = run("search", "partial index", *chosen, TMPDIR=str(tmp_path / "nowhere"))
        assert done.returncode == 2
        assert "torch unpacks it in TMPDIR" in done.stderr.splitlines()[-1]
