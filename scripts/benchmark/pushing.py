"""Documents pushed to a server: how long until they are accepted, and until they are found."""

import secrets
import subprocess
import sys
import time
from pathlib import Path

from benchmark.report import OURS, Row
from benchmark.serving import running
from benchmark.timing import summarise
from rag.client.client import Client
from rag.serving.api_keys import KeyFile

_LOOK = 0.1  # seconds between two searches for what was pushed
_SECONDS = 120.0  # that anything may take


def push(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Serve an index of a folder, all of whose passages count, and push a document at a time until each is found.

    An index that is in `work` already is used again. The first document has a process started; its row is of one run.
    """
    index = work / "index"
    if not (index / "CURRENT").exists():
        verb = [sys.executable, "-m", "rag.commands.cli", "index", str(source), "--index", str(index), "--quiet"]
        subprocess.run(verb, check=True, stdout=subprocess.DEVNULL)
    keys = KeyFile(work / "keys.json")
    name = f"bench-{secrets.token_hex(4)}"
    key = keys.add(name, "write")
    line = [sys.executable, "-m", "rag.commands.cli", "serve", "--index", str(index), "--port", "{port}"]
    accepted, found = [], []
    with (
        running([*line, "--keys", str(keys.path)]) as server,
        Client(f"http://127.0.0.1:{server.port}", key=key, timeout=_SECONDS, patience=_SECONDS) as client,
    ):
        server.await_workers()
        passages = client.status()["chunks"]
        for number in range(repeat + 1):
            word = f"zq{secrets.token_hex(6)}"
            start = time.perf_counter()
            client.push(f"https://pushed.test/{number}", f"A note about {word}, number {number}.")
            accepted.append(time.perf_counter() - start)
            end = time.perf_counter() + _SECONDS
            while not client.search(f'"{word}"', mode="lexical", k=1).hits:
                if time.perf_counter() > end:
                    raise RuntimeError(f"not found after {_SECONDS:g} s: {client.changes()[0]}")
                time.sleep(_LOOK)
            found.append(time.perf_counter() - start - accepted[-1])
    rows = {"accepted": accepted, "the first is found": found[:1], "another is found": found[1:]}
    title = f"pushed to {passages:,} passages: "
    return [{"name": title + what, "contestant": OURS, **summarise(times)} for what, times in rows.items()]
