"""Building a package beforehand, and serving it where there is no compiler."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.system.conftest import run

pytestmark = pytest.mark.model


def without_compiler(tmp_path: Path) -> dict[str, str]:
    """An environment in which no compiler can be found."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    return {"PATH": str(tools), "CXX": "/nonexistent/compiler"}


def test_warm_builds_once(tmp_path):
    first = json.loads(run("warm", "--cache-dir", tmp_path / "cache", "--json").stdout)
    again = json.loads(run("warm", "--cache-dir", tmp_path / "cache", "--json").stdout)
    assert (first["built"], again["built"]) == (True, False)
    assert first["package"] == again["package"]
    assert first["bytes"] == sum(path.stat().st_size for path in Path(first["package"]).iterdir())
    assert oct(os.stat(tmp_path / "cache").st_mode & 0o777) == "0o700"


def test_a_copied_package_serves_without_a_compiler(index, tmp_path):
    package = Path(json.loads(run("warm", "--json").stdout)["package"])
    cache = tmp_path / "cache"
    (cache / "packages").mkdir(parents=True, mode=0o700)
    cache.chmod(0o700)
    shutil.copytree(package, cache / "packages" / package.name)
    environ = without_compiler(tmp_path)
    found = run("search", "vacuum", "--index", index, "--cache-dir", cache, "--json", **environ)
    assert json.loads(found.stdout)["hits"][0]["title"] == "Vacuum", found.stderr
    # another precision has no package there: the error says what is there and why it does not fit
    other = run("warm", "--cache-dir", cache, "--precision", "int8", **environ)
    assert other.returncode == 2
    assert "apt-get install g++" in other.stderr
    assert package.name in other.stderr


@pytest.mark.parametrize("file", ["package.json", "first"])
def test_a_damaged_package_is_named_and_another_still_works(tmp_path, file):
    cache = tmp_path / "cache"
    good = json.loads(run("warm", "--cache-dir", cache, "--json").stdout)["package"]
    bad = Path(json.loads(run("warm", "--cache-dir", cache, "--precision", "int8", "--json").stdout)["package"])
    victim = bad / file if file != "first" else sorted(p for p in bad.iterdir() if p.name != "package.json")[0]
    victim.write_bytes(victim.read_bytes()[:-10])
    refused = run("warm", "--cache-dir", cache, "--precision", "int8")
    assert refused.returncode == 2
    assert victim.name in refused.stderr
    assert "Traceback" not in refused.stderr
    still = json.loads(run("warm", "--cache-dir", cache, "--json").stdout)
    assert (still["package"], still["built"]) == (good, False)
