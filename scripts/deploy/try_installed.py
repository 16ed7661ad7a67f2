"""Test an installed Pilotlight by indexing, searching and serving a folder without a compiler and PyTorch.

Usage: try_installed.py BIN SOURCE WORK, where BIN is the folder with the program `pilotlight`.
"""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


def main() -> None:
    """Index, search and serve. Raises an error if one of these fails."""
    programs, source, work = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        "PATH": str(programs),
        "HOME": str(work),
        "CXX": "/nonexistent/g++",
        "PILOTLIGHT_INDEX": str(work / "index"),
        "PILOTLIGHT_PORT": str(port),
    }

    def run(*arguments: str) -> bytes:
        line = [programs / "pilotlight", *arguments]
        return subprocess.run(line, env=environment, stdout=subprocess.PIPE, check=True).stdout

    start = time.monotonic()
    report = json.loads(run("index", str(source), "--quiet", "--json"))
    print(f"indexed {report['documents']} documents, {report['chunks']} passages: {time.monotonic() - start:.1f} s")
    start = time.monotonic()
    response = json.loads(run("search", "how do I run it without a compiler?", "--json"))
    print(f"first search: {time.monotonic() - start:.1f} s, {response['hits'][0]['title']}")
    start = time.monotonic()
    server = subprocess.Popen([programs / "pilotlight", "serve"], env=environment, stderr=subprocess.DEVNULL)
    answer: dict[str, list[object]] = {}
    try:
        while not answer and server.poll() is None:
            with contextlib.suppress(OSError):
                answer = json.load(
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/search?q=compiler", timeout=30)
                )
            time.sleep(0.02)
        print(f"first answer of the server: {time.monotonic() - start:.1f} s after its start")
    finally:
        server.terminate()
        code = server.wait(60)
    if code or not answer.get("hits"):
        sys.exit(f"the server ended with exit code {code} after the answer {answer}")


if __name__ == "__main__":
    main()
