"""Whether two commits do the same: index files, answers over REST and texts of the command line, side by side.

    python -m tests.quality.commits BASE [FOLDER]

A refactoring says that nothing changes for a user; this says whether that is so. FOLDER, the documentation of this
repository unless one is named, is served on loopback, crawled and indexed by BASE, by BASE once more and by the files
as they are here. What differs between the two builds of BASE is left out: it is times and ids. Prints what else differs
and exits with 1, or prints how much was compared.
"""

import argparse
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

HERE = Path(__file__).resolve().parents[2]
SITE_PORT, SERVER_PORT = 8731, 8732  # the same for every build, as addresses go into the index
STARTED = "READY"
QUERIES = (
    "how do I rebuild the index",
    "memory",
    '"partial index" create',
    "what happens when the disk is full?",
    "Wie viele Prozesse?",
    "CREATE INDEX CONCURRENTLY",
    "zzzz qqqq",
    "a",
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"k": 3, "offset": 2},
    {"mode": "dense", "expand": "section"},
    {"mode": "lexical", "facets": True},
    {"diversity": 0.5, "per_document": 0, "sentences": True},
    {"filter": {"path": "/"}},
)
WRONG: tuple[tuple[str, object], ...] = (
    ("/api/v1/search", {"query": ""}),
    ("/api/v1/search", {"query": "a", "k": 0}),
    ("/api/v1/search", {"query": "a", "mode": "no"}),
    ("/api/v1/search", {"query": "a", "kk": 1}),
    ("/api/v1/search", {"query": "a", "collection": "absent"}),
    ("/api/v1/search", []),
    ("/api/v1/search/batch", {"queries": []}),
    ("/api/v1/documents/none", None),
    ("/search?q=", None),
)
# Times, sizes of memory, ids of generations and of requests, ports and folders that were made for this run.
_PASSING = re.compile(
    r"\d{8}T\d{6}[\w-]*|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*Z?|\d+(\.\d+)? ?(ms|s|MB|GB|KB|chunks/s)\b|[0-9a-f]{16,}"
    r"|/tmp/[\w./-]+"
)


def main() -> int:
    """Compare; return the exit code."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("base", help="the commit before the change")
    asked.add_argument("folder", nargs="?", type=Path, help="folder of HTML pages")
    given = asked.parse_args()
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="commits-")))
        before = stack.enter_context(worktree(given.base, work / "before"))
        folder = given.folder or made_site(work / "site")
        stack.enter_context(served(folder))
        first, again, after = (seen(tree, work / name) for tree, name in ((before, "a"), (before, "b"), (HERE, "c")))
    steady = {name: value for name, value in first.items() if again.get(name) == value}
    differing = [name for name, value in steady.items() if after.get(name) != value] + sorted(after.keys() - first)
    for name in differing:
        print(f"differs: {name}\n  before: {steady.get(name, '')[:400]}\n  after:  {after.get(name, '')[:400]}")
    print(f"{len(steady)} compared, {len(first) - len(steady)} left out as they differ by themselves")
    print(*(f"left out: {name}" for name in first.keys() - steady), sep="\n")
    return bool(differing)


@contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """Check a commit out into a folder for a while."""
    git = ["git", "-C", str(HERE), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def made_site(folder: Path) -> Path:
    """Build the sample site."""
    subprocess.run([sys.executable, "scripts/build_docs.py", str(folder)], cwd=HERE, check=True)
    return folder


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """Serve a folder on loopback for a while."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", SITE_PORT), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def seen(tree: Path, work: Path) -> dict[str, str]:
    """Build an index with the product in a folder, and return everything that a user sees of it, by name."""
    run = partial(pilotlight, tree, work)
    work.mkdir()
    found = {"index": run("index", f"http://127.0.0.1:{SITE_PORT}/index.html", "--allow-private", "--quiet")}
    found |= index_files(work / "index")
    verbs = re.findall(r"^ {2,4}([a-z]+) ", run("--help"), re.MULTILINE)
    for line in (
        *([verb, "--help"] for verb in verbs),
        ["sources"],
        ["generations"],
        ["collections"],
        ["search", "memory of a worker"],
        ["search", "memory", "-k", "3", "--mode", "lexical", "--json"],
        ["search", "a", "-k", "0"],
        ["search"],
        ["serch"],
        ["search", "a", "--mod", "x", "--port", "99999999"],
        ["index", "/nonexistent"],
        ["rollback", "none"],
        ["keys", "forget"],
    ):
        found[f"pilotlight {' '.join(line)}"] = run(*line)
    with serving(tree, work):
        for query in QUERIES:
            for options in OPTIONS:
                found[f"search {query!r} {options}"] = ask("/api/v1/search", {"query": query, **options})
        for path, body in WRONG:
            found[f"{path} {body}"] = ask(path, body)
        for path in ("/", "/search?q=memory", "/status", "/openapi.json", "/api/v1/documents", "/absent"):
            found[path] = ask(path)
    return found


def command(tree: Path) -> list[str]:
    """Return the command line that starts the product of a folder."""
    script = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]["pilotlight"]
    module, function = script.split(":")
    return [
        sys.executable,
        "-c",
        f"import sys; from {module} import {function} as f; sys.argv[0]='pilotlight'; sys.exit(f())",
    ]


def environment(tree: Path, work: Path, port: int = SERVER_PORT) -> dict[str, str]:
    """Return the variables of a process of the product."""
    own = {"PYTHONPATH": str(tree), "PILOTLIGHT_INDEX": str(work / "index"), "COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    return os.environ | own | {"PILOTLIGHT_PORT": str(port)}


def pilotlight(tree: Path, work: Path, *arguments: str) -> str:
    """Run a verb; return its exit code and what it wrote, without what passes."""
    line = [*command(tree), *arguments]
    done = subprocess.run(line, cwd=work, env=environment(tree, work), capture_output=True, text=True, check=False)
    return passing(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")


def passing(text: str) -> str:
    """Return a text without times, ids and places."""
    return _PASSING.sub("~", text)


@contextmanager
def serving(tree: Path, work: Path, port: int = SERVER_PORT) -> Iterator[None]:
    """Run the server of a folder for a while."""
    with (work / "log").open("wb") as log:
        server = subprocess.Popen([*command(tree), "serve"], cwd=work, env=environment(tree, work, port), stderr=log)
    try:
        while "ready" not in (answer := ask("/readyz", port=port)) or '"ready": true' not in answer.replace(
            '":true', '": true'
        ):
            if server.poll() is not None:
                raise RuntimeError((work / "log").read_text())
        yield
    finally:
        server.terminate()
        server.wait(30)


def ask(path: str, body: object = None, port: int = SERVER_PORT) -> str:
    """Return the status and the body of an answer, JSON in order of its names, without what passes."""
    status, text = answered(path, body, port)
    if not status:
        return ""
    try:
        value = json.loads(text)
    except ValueError:
        return passing(f"{status} {text}")
    if isinstance(value, dict):
        value.pop("took_ms", None)
    return passing(f"{status} {json.dumps(value, sort_keys=True, ensure_ascii=False)}")


def answered(path: str, body: object, port: int) -> tuple[int, str]:
    """Return the status and the text of an answer; 0 where there is no server."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def index_files(index: Path) -> dict[str, str]:
    """Return the digest of each file of an index by its name in it; of databases and JSON, what does not pass."""
    read: dict[str, Callable[[Path], str]] = {".sqlite": database, ".json": lambda path: passing(path.read_text())}
    files = {}
    for path in sorted(index.rglob("*")):
        if path.is_file():
            reader = read.get(path.suffix, lambda path: hashlib.sha256(path.read_bytes()).hexdigest())
            name = passing(str(path.relative_to(index)))
            files[f"file {name}"] = files.get(f"file {name}", "") + reader(path)
    return files


def database(path: Path) -> str:
    """Return the digest of the rows of a database, without what passes."""
    rows = hashlib.sha256()
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                rows.update(passing(repr(row)).encode())
    return rows.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
