"""Every verb, what it says to bad input, and the quick start of the README, word by word."""

import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from embedder.config import EmbedderConfig, default_folder
from embedder.engines.plan import Plan
from tests.ports import free_port
from tests.system.conftest import ROOT, request, run, serving, write_pages
from tests.waiting import wait_for

pytestmark = [pytest.mark.model, pytest.mark.longest]


def refused(done, told):
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("pilotlight: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    assert told in lines[0]
    assert done.stdout == ""


def test_export_and_import(index, tmp_path):
    exported = json.loads(run("export", tmp_path / "a.tar", "--index", index, "--json").stdout)
    assert exported["file_bytes"] == (tmp_path / "a.tar").stat().st_size
    where = ("--index", tmp_path / "i", "--collection", "manuals")
    imported = json.loads(run("import", tmp_path / "a.tar", *where, "--json").stdout)
    assert (imported["generation"], imported["warnings"]) == (exported["generation"], [])
    found = json.loads(run("search", "vacuum", *where, "--json").stdout)
    assert found["generation"] == exported["generation"]
    precision = {"bf16": "fp32"}.get(precision_of(index), "bf16")
    engine = ("--engine", "eager", "--precision", precision)
    assert "warning: serve will refuse it" in run("import", tmp_path / "a.tar", *where, *engine).stdout
    (tmp_path / "a.tar").write_bytes(b"garbage")
    refused(run("import", tmp_path / "a.tar", *where), "truncated")
    refused(run("export", tmp_path / "none" / "a.tar", "--index", index), "cannot write")


def precision_of(index):
    return json.loads(run("doctor", "--index", index, "--json").stdout)["embedder"]["precision"]


def test_tools_on_an_index(index):
    mcp = pytest.importorskip("mcp", reason="needs the extra mcp")
    arguments = ["-m", "rag.commands.cli", "mcp", "--index", str(index)]
    target = mcp.StdioServerParameters(command=sys.executable, args=arguments)

    async def ask() -> None:
        with anyio.fail_after(120):
            async with mcp.Client(target) as client:
                found = await client.call_tool("search", {"query": "dead tuples", "k": 1})
                facts = dict(re.findall(r"^(Section|Url): (.*)$", found.content[0].text, re.MULTILINE))
                assert facts["Section"] == "Vacuum"
                whole = await client.call_tool("read", {"address": facts["Url"]})
                assert whole.content[0].text.startswith("This is all of it.")
                exact = await client.call_tool("grep", {"pattern": "dead t.ples"})
                assert exact.content[0].text.startswith("1 passage found.")
                wrong = await client.call_tool("search", {"query": "a", "collection": "gone"})
                assert wrong.is_error

    anyio.run(ask)


def test_a_copied_package_serves_without_a_compiler_and_a_damaged_one_is_refused(index, tmp_path, monkeypatch):
    made, copy = tmp_path / "made", tmp_path / "copy"
    assert "compiling the native encoder" in run("search", "vacuum", "--index", index, "--cache-dir", made).stderr
    assert run("search", "vacuum", "--index", index, "--cache-dir", made).stderr == ""
    (copy / "packages").mkdir(parents=True)
    for folder in (made / "packages").iterdir():
        shutil.copytree(folder, copy / "packages" / folder.name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    found = run("search", "partial index", "--index", index, "--json", "--cache-dir", copy)
    assert json.loads(found.stdout)["hits"][0]["title"] == "Partial indexes"
    refused(run("search", "x", "--index", index, "--cache-dir", tmp_path / "none"), "apt-get install g++")
    (folder,) = (copy / "packages").glob("library-*")
    victim = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-1])
    refused(run("search", "x", "--index", index, "--cache-dir", copy), f"{victim} is damaged")


FORBIDDEN = {"transformers", "sentence_transformers", "langchain", "langchain_core", "langchain_community", "bs4"}
FORBIDDEN |= {"pymilvus", "grpc", "pydantic", "mcp", "starlette", "anyio", "re2"}


def test_the_same_answer_everywhere(index):
    with serving(index) as url:
        status, by_get = request(f"{url}/api/v1/search?q=partial+index&k=2")
        assert status == 200
        _, by_post = request(f"{url}/api/v1/search", {"query": "partial index", "k": 2})
        printed = json.loads(run("search", "partial index", "-k", "2", "--index", index, "--json").stdout)
        for answer in (by_get, by_post, printed):
            del answer["took_ms"]
        assert by_get == by_post == printed
        assert request(f"{url}/livez")[0] == 200
        assert request(f"{url}/readyz")[1]["documents"] == 3


def test_the_serving_process_imports_no_heavy_library(index):
    code = (
        "import sys, time\n"
        "from web.app import application\n"
        "client = application().test_client()\n"
        "while client.get('/readyz').status_code != 200: time.sleep(0.05)\n"
        "assert client.get('/api/v1/search?q=vacuum').get_json()['hits']\n"
        "assert client.get('/?q=vacuum').status_code == 200\n"
        "print(*sys.modules)\n"
    )
    environ = os.environ | {"PILOTLIGHT_INDEX": str(index)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"faiss", "flask"} <= imported
    assert not imported & FORBIDDEN
    assert ("torch" in imported) == (Plan(EmbedderConfig()).engine != "native")


def test_serve_indexes_a_folder_and_follows_it(tmp_path):
    notes, index = tmp_path / "notes", tmp_path / "index"
    notes.mkdir()
    write_pages(notes, ["partial.md"])

    def titles(url):
        return {hit["title"] for hit in request(f"{url}/api/v1/search?q=storage+of+rows")[1]["hits"]}

    with serving(index, notes) as url:
        assert titles(url) == {"Partial indexes"}
        write_pages(notes, ["vacuum.md"])
        wait_for(lambda: titles(url) == {"Partial indexes", "Vacuum"}, "what is new")
    with serving(index, notes) as url:  # the index is of it: used as it is
        assert titles(url) == {"Partial indexes", "Vacuum"}
    wait_for(lambda: not any(str(index).encode() in line for line in command_lines()), "those who follow to end")


def test_serve_says_why_a_source_cannot_be_indexed(tmp_path):
    done = run("serve", tmp_path / "gone", "--index", tmp_path / "index")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("pilotlight: "), done.stderr
    assert "gone" in done.stderr


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            yield path.read_bytes()


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
            assert self._server.wait(300) in (0, 143)
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
