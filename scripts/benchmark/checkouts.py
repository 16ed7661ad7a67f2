"""This checkout against another one of Pilotlight, each with its own .venv: whether a change made anything slower.

Only the command line and the REST endpoint are used, which both have. Each builds its own index of the same texts.
"""

import http.client
import itertools
import os
import statistics
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from benchmark.corpus import QUERIES, read_chunks, short_passages, write_folder
from benchmark.overload import CAPACITY_S, CLIENTS, hammer, ready_index
from benchmark.report import Row
from benchmark.serving import Server, running
from benchmark.timing import interleave, ratio, summarise
from embedder import Embeddings

OTHER, THIS = "the other checkout", "this one"
_ROOT = Path(__file__).resolve().parents[2]
_COLD = 9  # processes of each
_SETTLE_S = 0.3
_ENVIRONMENT = {"PILOTLIGHT_LOG_FORMAT": "text", "HF_HUB_OFFLINE": "1"}


def checkouts(source: Path, chunks: int, repeat: int, work: Path, *, against: Path) -> list[Row]:
    """Measure a search by one client, by 16, a new process of `search` and one of `serve`, in turns.

    A ratio above 1 says that this checkout is faster. Raises RuntimeError where a command fails.
    """
    ours = Embeddings()
    folders = {OTHER: against.resolve(), THIS: _ROOT}
    texts = short_passages(read_chunks(source, chunks, ours), chunks)
    documents = write_folder(texts, work / "documents")
    ready_index(source, chunks, work, ours)  # for the queries of wrk
    lines: dict[str, Callable[..., list[str]]] = {}
    for name, folder in folders.items():
        index = work / f"index-{folder.name}-{len(lines)}"
        lines[name] = _command(folder, index)
        _run(lines[name]("index", str(documents), "--quiet"))
    wanted = " ".join(texts[len(texts) // 2].split())
    rows = _rows("a new process of `search` to its answer", _searches(lines, wanted))
    rows += _rows("a new process of `serve` to its first answer", _starts(lines, wanted))
    with ExitStack() as stack:
        servers = {name: stack.enter_context(running(_serve(line), _ENVIRONMENT)) for name, line in lines.items()}
        for server in servers.values():
            server.await_workers()
            hammer(server.port, CLIENTS, 2, work / "queries.lua")  # warms up
        rows += _rows("a search by one client", _one_client(servers, repeat))
        rows += _many_clients(servers, repeat, work / "queries.lua")
    return rows


def _command(folder: Path, index: Path) -> Callable[..., list[str]]:
    line = [str(folder / ".venv" / "bin" / "pilotlight")]
    return lambda verb, *arguments: [*line, verb, "--index", str(index), *arguments]


def _serve(line: Callable[..., list[str]]) -> list[str]:
    return line("serve", "--workers", "1", "--port", "{port}")


def _run(line: list[str]) -> str:
    done = subprocess.run(line, capture_output=True, text=True, env=os.environ | _ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} failed: {done.stderr[-500:]}")
    return done.stdout


def _searches(lines: Mapping[str, Callable[..., list[str]]], wanted: str) -> dict[str, list[float]]:
    def search(line: Callable[..., list[str]]) -> Callable[[str], None]:
        def run(text: str) -> None:
            if wanted[:60] not in " ".join(_run(line("search", "-k", "1", text)).split()):
                raise RuntimeError("a search gave a wrong answer")

        return run

    return interleave({name: search(line) for name, line in lines.items()}, [wanted], _COLD)


def _starts(lines: Mapping[str, Callable[..., list[str]]], wanted: str) -> dict[str, list[float]]:
    def start(line: Callable[..., list[str]]) -> Callable[[str], Callable[[], None]]:
        def run(text: str) -> Callable[[], None]:
            stack = ExitStack()
            try:
                stack.enter_context(running(_serve(line), _ENVIRONMENT)).first_answer(text)
            except BaseException:
                stack.close()
                raise
            return stack.close

        return run

    return interleave({name: start(line) for name, line in lines.items()}, [wanted], _COLD)


def _one_client(servers: Mapping[str, Server], repeat: int) -> dict[str, list[float]]:
    places = [f"/api/v1/search?k=10&q={quote(query)}" for query in QUERIES]

    def ask(server: Server) -> Callable[[str], None]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

        def get(place: str) -> None:
            connection.request("GET", place)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"a search was answered {answer.status}")

        return get

    return interleave({name: ask(server) for name, server in servers.items()}, places, repeat, settle=_SETTLE_S)


def _many_clients(servers: Mapping[str, Server], repeat: int, script: Path) -> list[Row]:
    runs: dict[str, list[Row]] = {name: [] for name in servers}
    names = list(servers)
    for turn, offset in itertools.product(range(max(3, repeat // 8)), range(len(names))):
        name = names[(turn + offset) % len(names)]
        runs[name].append(hammer(servers[name].port, CLIENTS, CAPACITY_S, script))
    rates = {name: [run["per_second"] for run in each] for name, each in runs.items()}
    return [
        {
            "name": f"{CLIENTS} clients",
            "contestant": name,
            **{key: round(statistics.median(run[key] for run in runs[name]), 2) for key in ("median_ms", "p95_ms")},
            "per_second": statistics.median(values),
            "runs": len(values),
            "ratio": round(statistics.median(a / b for a, b in zip(values, rates[OTHER], strict=True)), 3),
        }
        for name, values in rates.items()
    ]


def _rows(name: str, seconds: dict[str, list[float]]) -> list[Row]:
    return [
        {"name": name, "contestant": who, **summarise(values), "ratio": ratio(seconds[OTHER], values)}
        for who, values in seconds.items()
    ]
