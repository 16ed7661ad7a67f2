"""Replicas as processes, on an object store: swapped under load, killed while they fetch."""

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from indexer.generation.current import current_id
from indexer.generation.layout import BUILDING, GENERATIONS
from indexer.generation.manifest import DOCUMENTS, VECTORS, read_manifest
from indexer.publish.collections import size_of
from indexer.publish.verification import problems_of, verify
from tests.rag.conftest import Site
from tests.system.conftest import ROOT, free_port, request, run, wait_for


class Gateway:
    """Stands before an object store: counts what is fetched of each file, and holds back one of them."""

    def __init__(self, store: str) -> None:
        self.fetched: list[str] = []  # names of the files of which a part was asked for
        self.held = ""  # what the name of the file that is held back ends with
        self.go_on = threading.Event()
        gateway, target = self, urlsplit(store).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Range"):
                    gateway.fetched.append(urlsplit(self.path).path.rpartition("/")[2])
                    if gateway.held and self.path.endswith(gateway.held):
                        gateway.go_on.wait(60)
                connection = http.client.HTTPConnection(target, timeout=30)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"content-length", "connection", "transfer-encoding", "server", "date"}:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
                connection.close()

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

            def log_message(self, *args: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                return  # clients are killed on purpose here

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def gateway(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    gateway = Gateway(os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", gateway.url)
    yield gateway
    gateway.close()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@contextmanager
def replica(url: str, copies: Path) -> Iterator[str]:
    """A server of two workers with a copy of its own; gives its address, at which it need not be ready yet."""
    port = free_port()
    settings = {"INDEX": url, "REPLICA_DIR": copies, "POLL": "0.1", "PORT": port, "WORKERS": 2}
    environ = {f"PILOTLIGHT_{name}": str(value) for name, value in settings.items()}
    with copies.with_suffix(".log").open("w+") as said:
        line = [sys.executable, "-m", "tests.rag.serving.replica_dummy"]
        process = subprocess.Popen(line, cwd=ROOT, env=os.environ | environ, stderr=said)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=60)
        said.seek(0)
        log = said.read()
    assert process.returncode == 0, log
    assert "Traceback" not in log


def ready(url: str) -> bool:
    try:
        return request(f"{url}/readyz")[0] == 200
    except OSError:
        return False  # not listening yet


def push(site: Site, url: str, word: str) -> str:
    (site.source / "new.md").write_text(f"# The {word} page\n\nWhat only the {word} generation says.\n")
    generation = site.build()
    done = run("push", url, "--index", site.index)
    assert done.returncode == 0, done.stderr
    return generation


def test_replicas_swap_under_load_and_no_query_fails(site: Site, bucket: str, tmp_path: Path) -> None:
    first = push(site, bucket, "first")
    with replica(bucket, tmp_path / "one") as one, replica(bucket, tmp_path / "two") as two:
        for url in (one, two):
            wait_for(lambda url=url: ready(url), "a replica to be ready", 60)  # type: ignore[misc]
        seen: dict[str, list[str]] = {one: [], two: []}
        stop = threading.Event()

        def ask(url: str) -> None:
            while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
                status, answer = request(f"{url}/api/v1/search", {"query": "generation"})
                assert status == 200, answer
                seen[url].append(answer["generation"])

        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(ask, url) for url in (one, two, one, two)]
            try:
                second = push(site, bucket, "second")
                # both workers of each: a connection may go to either
                wait_for(
                    lambda: (
                        any(client.done() for client in clients)
                        or all(len(answers) > 10 and set(answers[-10:]) == {second} for answers in seen.values())
                    ),
                    "all replicas to serve what was pushed",
                    60,
                )
            finally:
                stop.set()
            for client in clients:
                client.result(60)
        assert all(set(answers) == {first, second} for answers in seen.values())


def test_a_fetch_that_was_killed_is_gone_on_with(site: Site, bucket: str, gateway: Gateway, tmp_path: Path) -> None:
    generation = push(site, bucket, "first")
    files = read_manifest(site.index / GENERATIONS / generation).files
    gateway.fetched.clear()
    gateway.held = VECTORS
    line = [
        sys.executable,
        "-m",
        "rag.commands.cli",
        "verify",
        "--quick",
        "--index",
        bucket,
        "--replica-dir",
        str(tmp_path),
    ]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    wait_for(lambda: VECTORS in gateway.fetched, "the fetch to be under way", 60)
    process.kill()
    process.wait(timeout=30)
    [copy] = (folder for folder in tmp_path.iterdir() if (folder / BUILDING).is_dir() and folder != site.index)
    assert list((copy / BUILDING).iterdir()) == [copy / BUILDING / generation]
    assert not (copy / "CURRENT").exists()
    assert DOCUMENTS in gateway.fetched
    gateway.fetched.clear()
    gateway.held = ""
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert gateway.fetched == [VECTORS]
    assert current_id(copy) == generation
    assert problems_of(verify(copy / GENERATIONS / generation)) == []
    assert size_of(read_manifest(copy / GENERATIONS / generation)) == sum(record.size for record in files.values())


def test_a_killed_upload_leaves_what_was_live(site: Site, bucket: str, gateway: Gateway, tmp_path: Path) -> None:
    first = push(site, bucket, "first")
    (site.source / "new.md").write_text("# The second page\n\nOther words.\n")
    second = site.build()
    gateway.fetched.clear()
    gateway.held = f"{second}/{VECTORS}"
    line = [sys.executable, "-m", "rag.commands.cli", "push", bucket, "--index", str(site.index)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    wait_for(lambda: VECTORS in gateway.fetched, "the upload to be under way", 60)
    process.kill()
    process.wait(timeout=30)
    read = ["verify", "--quick", "--json", "--index", bucket, "--replica-dir", tmp_path / "copy"]
    assert f'"generation": "{first}"' in run(*read).stdout
    gateway.held = ""
    assert run(*line[3:]).returncode == 0
    assert f'"generation": "{second}"' in run(*read).stdout
