"""The installed program, run as a user runs it: real model, real processes."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "partial.md": "# Partial indexes\n\nA partial index covers only those rows of a table that satisfy a predicate.\n",
    "vacuum.md": "# Vacuum\n\nVacuum reclaims the storage that is occupied by dead tuples.\n",
    "fsync.html": "<title>Durability</title><h1>Durability</h1><p>Turning fsync off risks losing data in a crash.</p>",
}


def run(
    *arguments: str | Path, stdin: str | None = None, python: str | Path = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    line = [python, "-m", "rag.commands.cli", *arguments]
    environment = os.environ | environ
    return subprocess.run(line, input=stdin, env=environment, capture_output=True, text=True, timeout=300, check=False)


def request(url: str, body: object = None) -> tuple[int, Any]:
    """Send a GET, or a POST of JSON; return the status and the decoded body."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def serving(index: Path, *flags: str, python: str | Path = sys.executable) -> Iterator[str]:
    """Serve an index until the block ends; give the base url once the server is ready."""
    port = free_port()
    line = [python, "-m", "rag.commands.cli", "serve", "--index", index, "--port", str(port), *flags]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log)

        def read() -> str:
            log.seek(0)
            return log.read()

        def ready() -> bool:
            assert process.poll() is None, read()
            try:
                return request(f"{url}/readyz")[0] == 200
            except OSError:
                return False  # not listening yet

        try:
            wait_for(ready, "the server to be ready")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(timeout=300)
            finally:
                process.kill()
            assert process.returncode == 0, read()
            assert "Traceback" not in read()


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    write_pages(folder)
    return folder


def write_pages(folder: Path, names: Sequence[str] = tuple(PAGES)) -> None:
    for name in names:
        (folder / name).write_text(PAGES[name], encoding="utf-8")


@pytest.fixture(scope="session")
def index(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of PAGES that tests only read."""
    folder = tmp_path_factory.mktemp("served") / "index"
    done = run("index", source, "--index", folder, "--quiet")
    assert done.returncode == 0, done.stderr
    return folder
