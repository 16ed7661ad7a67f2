"""The quickstart, line by line, from an empty folder: what a new user types is what is run here.

Not run are the lines that install packages, which need root or the network; what they leave behind is made by hand.
`~/notes` and a site on loopback stand in for the reader's own documents.
"""

import functools
import hashlib
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedder.config import default_folder
from tests.system.conftest import ROOT, request, wait_for, write_pages
from tests.web.test_server import free_port

pytestmark = [pytest.mark.model, pytest.mark.longest]
INSTALLS = ("apt-get install", "export PIP_EXTRA_INDEX_URL", "python3 -m venv", "pip install")
SERVES = re.compile(r"scripts/run|pilotlight serve")
LASTS = re.compile(r"(\. |export )")  # what changes the shell for the lines after it
LONGEST = 300  # seconds, after which a line hangs


def commands() -> list[str]:
    text = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    write_pages(folder, ["fsync.html"])
    (folder / "index.html").write_text("<h1>Manual</h1><p>The manual.</p><nav><a href=fsync.html>fsync</a></nav>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, with the environment that `scripts/run` makes of it at its first start.

    Of its documentation, all of which would take a minute to embed, there are two pages.
    """
    folder = tmp_path / "clone"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    kept = {"concepts"}
    for page in (folder / "docs").glob("*.md"):
        if page.stem not in kept:
            page.unlink()
    readme = folder / "README.md"
    lines = readme.read_text(encoding="utf-8").splitlines(keepends=True)
    linked = [(set(re.findall(r"\]\(docs/([\w-]+)\.md", line)), line) for line in lines]
    readme.write_text("".join(line for names, line in linked if names <= kept), encoding="utf-8")
    venv.create(folder / ".venv", symlinks=True)
    [packages] = (folder / ".venv" / "lib").glob("python*/site-packages")
    (packages / "clone.pth").write_text("\n".join([str(folder), *sys.path[1:]]) + "\n")
    command = folder / ".venv" / "bin" / "pilotlight"
    command.write_text(
        f"#!{folder}/.venv/bin/python\nimport sys\nfrom rag.commands.cli import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    listed = (folder / "pyproject.toml").read_bytes() + (folder / "scripts/deploy/pilotlight-serve.txt").read_bytes()
    (folder / ".venv" / f"installed-serve-{hashlib.sha256(listed).hexdigest()[:16]}").touch()
    return folder


class Shell:
    """Runs lines one after another as a shell would that somebody types into; a server goes on meanwhile."""

    def __init__(self, folder: Path, environ: dict[str, str], url: str) -> None:
        self._folder = folder
        self._environ = environ
        self._url = url
        self._lasting: list[str] = []
        self._server: subprocess.Popen[bytes] | None = None

    def type(self, line: str) -> str:
        if LASTS.match(line):
            self._lasting.append(line)
        if SERVES.match(line):
            self.stop()
            self._server = subprocess.Popen(self._line(f"exec {line}"), cwd=self._folder, env=self._environ)
            wait_for(self._is_ready, line, LONGEST)
            return ""
        done = subprocess.run(
            self._line(line), cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=LONGEST
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            assert self._server.wait(60) in (0, 143)
            self._server = None

    def _line(self, line: str) -> list[str]:
        return ["bash", "-c", "\n".join(["set -e", *self._lasting, line])]

    def _is_ready(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, "the server has ended"
        try:
            return request(f"{self._url}/readyz")[0] == 200
        except OSError:
            return False


def first_title(url: str) -> str:
    return str(request(f"{url}/api/v1/search?q=vacuum&k=1")[1]["hits"][0]["title"])


def test_every_line(clone: Path, site: str, tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    (home / "notes").mkdir(parents=True)
    write_pages(home / "notes", ["partial.md"])
    url = f"http://127.0.0.1:{port}"
    named = {"https://docs.example.org/": f"{site} --allow-private=yes", "http://127.0.0.1:8642": url}
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "HOME": str(home),
        "PILOTLIGHT_PORT": str(port),
        "PILOTLIGHT_DOCS_PORT": str(free_port()),
        "PILOTLIGHT_CACHE_DIR": os.environ.get("PILOTLIGHT_CACHE_DIR", str(default_folder())),
    }
    shell, said = Shell(clone, environ, url), {}
    try:
        for line in commands():
            if line.startswith(INSTALLS):
                continue
            if line == "pilotlight index":
                write_pages(home / "notes", ["vacuum.md"])
            typed = functools.reduce(lambda text, name: text.replace(name, named[name]), named, line)
            said[line] = shell.type(typed)
            if line == "pilotlight index":
                wait_for(lambda: first_title(url) == "Vacuum", "the server to have what is new")
    finally:
        shell.stop()
    assert "Partial indexes" in said['pilotlight search "when should I use a partial index?" -k 3']
    assert "documents    4" in said["pilotlight index"], "two notes, and the site, whose flag was not given again"
    [asked] = [line for line in said if line.startswith("curl")]
    assert '"hits"' in said[asked]
    assert "no problems found" in said["pilotlight doctor"] or "warning: " in said["pilotlight doctor"]
    assert len([line for line in said if SERVES.match(line)]) == 5, "each of them has answered"
