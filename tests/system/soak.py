"""A server under load for as long as it is told: `python -m tests.system.soak [MINUTES] [SEED]`.

Four clients search while documents are pushed and withdrawn, pages change, builds run and are killed, and one of two
workers is killed. Fails where an answer is wrong, a change is lost, or memory and open files keep growing.
"""

import http.client
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from tests.system.conftest import run, serving
from tests.waiting import wait_for

STABLE = "Lighthouse keepers polish the great lens before dusk."
PAGES, PUSHED = 40, 40
GROWTH = 0.05  # of memory, between the second and the last quarter
MORE_FILES = 40  # each of two workers may have two generations open


def call(url: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """Send a request; return status and body, or 0 and the error where the connection was cut off."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, repr(error)


KEY = "pl_" + "soak" * 10


class Soak:
    """What was written, and what went wrong."""

    def __init__(self, folder: Path, url: str, seed: int) -> None:
        self.folder, self.url, self.dice = folder, url, random.Random(seed)
        self.pages: dict[str, str] = {}
        self.pushed: dict[str, str | None] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.stop = threading.Event()
        self.kills = [0.0]

    def loop(self, step: Any, pause: float) -> threading.Thread:
        """Call a function again and again in a thread of its own."""

        def again() -> None:
            while not self.stop.wait(pause):
                try:
                    step()
                except Exception as error:  # noqa: BLE001 - told at the end
                    self.problems.append(f"{step.__name__}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=again, name=step.__name__)
        thread.start()
        return thread

    def ask(self) -> None:
        """Search for what never changes, and for what does."""
        began = time.monotonic()
        query = self.dice.choice(["who polishes the great lens", "text number", "lighthouse keepers"])
        status, body = call(f"{self.url}/api/v1/search", {"query": query, "k": 20})
        self.counts[f"answers {status}"] += 1
        if status == 200:
            texts = [hit["text"] for hit in json.loads(body)["hits"]]
            if query != "text number" and not any(STABLE in text for text in texts):
                self.problems.append(f"{query!r} did not find what is always there")
        elif status != 503 and not (status == 0 and any(began - 5 < kill for kill in self.kills)):
            took = f"{time.monotonic() - began:.1f} s, {began - self.kills[-1]:.1f} s after a kill"
            self.problems.append(f"a search was answered with {status} after {took}: {body[:200]}")

    def push(self) -> None:
        """Push a document, or withdraw it."""
        name = f"https://soak.test/{self.dice.randrange(PUSHED)}"
        text = f"Text number {self.dice.randrange(10**9)} was pushed."
        if self.dice.random() < 0.2 and self.pushed.get(name):
            status, _ = call(f"{self.url}/api/v1/documents?url={name}", method="DELETE")
            found = None
        else:
            status, _ = call(f"{self.url}/api/v1/documents", {"url": name, "text": text})
            found = text
        self.counts[f"pushes {status}"] += 1
        if status == 202:
            self.pushed[name] = found
        elif status == 0:
            self.pushed.pop(name, None)  # it may have been accepted or not
            self.counts["uncertain"] += 1

    def build(self) -> None:
        """Change pages and build, and kill every third build."""
        for _ in range(self.dice.randint(1, 5)):
            name = f"{self.dice.randrange(PAGES)}.txt"
            self.pages[name] = f"Text number {self.dice.randrange(10**9)} of a page."
            (self.folder / "pages" / name).write_text(self.pages[name])
        line = [sys.executable, "-m", "rag.commands.cli", "index", "--index", str(self.folder / "index")]
        with subprocess.Popen(
            [*line, str(self.folder / "pages")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            if self.dice.random() < 1 / 3:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self.dice.uniform(0.5, 8))
                process.kill()
                self.counts["builds killed"] += 1
                return
            _, errors = process.communicate()
        self.counts["builds"] += 1
        if process.returncode and "another process is writing" not in errors:
            self.problems.append(f"a build failed: {errors[-300:]}")

    def kill(self) -> None:
        """Kill the worker that began last, so that the other one lives long enough to show a leak."""
        if workers := _children(_children(os.getpid(), "serve")[0]):
            self.kills.append(math.inf)
            os.kill(workers[-1], signal.SIGKILL)
            self.kills[-1] = time.monotonic()
            self.counts["workers killed"] += 1

    def measure(self) -> tuple[int, int]:
        """Return the memory of the server in kB, and its open files and mapped files of the index.

        Memory is anonymous: the share of mapped libraries depends on which other programs of the machine map them.
        """
        [main] = _children(os.getpid(), "serve")
        memory = files = 0
        for pid in (main, *_children(main)):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/smaps_rollup").read_text()
                memory += int(status.split("Pss_Anon:")[1].split()[0])
                mapped = Path(f"/proc/{pid}/maps").read_text().count(str(self.folder))
                files += len(os.listdir(f"/proc/{pid}/fd")) + mapped
        return memory, files

    def missing(self) -> list[str]:
        """Return which texts the index should have and has not, or the other way round."""
        _, body = call(f"{self.url}/api/v1/documents")
        found = {passage["text"] for line in body.splitlines() for passage in json.loads(line)["passages"]}
        expected = {STABLE, *self.pages.values(), *(text for text in self.pushed.values() if text)}
        withdrawn = {name for name, text in self.pushed.items() if text is None}
        urls = {json.loads(line)["url"] for line in body.splitlines()}
        return [*sorted(expected - found), *sorted(withdrawn & urls)]


def _children(pid: int, word: str = "") -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if word in Path(f"/proc/{each}/cmdline").read_text()]


def main(minutes: str = "60", seed: str = "0") -> int:
    """Return 1 if anything went wrong."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        (folder / "pages").mkdir()
        (folder / "pages" / "stable.txt").write_text(STABLE)
        index = ["--index", str(folder / "index")]
        done = run("index", *index, str(folder / "pages"))
        assert done.returncode == 0, done.stderr
        done = run("keys", "add", "soak", "--role", "write", "--stdin", *index, stdin=KEY)
        assert done.returncode == 0, done.stderr
        with serving(folder / "index", "--workers", "2", "--query-cache", "0") as url:
            soak = Soak(folder, url, int(seed))
            threads = [soak.loop(soak.ask, 0.05) for _ in range(4)]
            threads += [soak.loop(soak.push, 0.5), soak.loop(soak.build, 3), soak.loop(soak.kill, 60)]
            end, measured = time.monotonic() + 60 * float(minutes), []
            while time.monotonic() < end:
                time.sleep(5)
                measured.append(soak.measure())
            soak.stop.set()
            for thread in threads:
                thread.join()
            line = run("index", *index, str(folder / "pages"))
            assert line.returncode == 0, line.stderr
            with suppress(AssertionError):
                wait_for(lambda: not soak.missing(), "everything to be found")
            soak.problems += [f"lost or wrong: {text}" for text in soak.missing()]
    quarter = max(1, len(measured) // 4)
    early, late = measured[quarter : 2 * quarter] or measured, measured[-quarter:]
    (memory, files), (memory_now, files_now) = (
        [median(column) for column in zip(*each, strict=True)] for each in (early, late)
    )
    if memory_now > memory * (1 + GROWTH):
        soak.problems.append(f"memory grew from {memory:,.0f} to {memory_now:,.0f} kB")
    if files_now > files + MORE_FILES:
        soak.problems.append(f"open files grew from {files:.0f} to {files_now:.0f}")
    print(json.dumps({**soak.counts, "memory_kb": [memory, memory_now], "files": [files, files_now]}, indent=1))
    print(*soak.problems[:50], sep="\n")
    return int(bool(soak.problems))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
