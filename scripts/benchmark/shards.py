"""One index against the same passages in four shards: times, recall, memory."""

import json
import multiprocessing
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmark.report import Row
from benchmark.scale import QUERIES, built_at
from benchmark.scale_corpus import SHARES, TOP, Vectors, name_of, queries
from benchmark.timing import interleave, summarise
from embedder import Embeddings
from indexer.filter import Filter
from indexer.stores.folder_store import FolderStore
from indexer.stores.shards.shard_store import ShardStore
from indexer.stores.store import Searchable, Store
from rag.query.options import MODES
from rag.query.request import SearchRequest
from rag.query.retriever import CANDIDATES, Retriever

_PARTS = 4
_MEASURED = 60  # queries; recall takes all


def shards(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Search one index and four shards of its passages in turns."""
    ours = Embeddings()
    built = built_at(source, chunks, ours, work)
    whole, parts = FolderStore(built["index"]), ShardStore([work / f"shard-{chunks}-{n}" for n in range(_PARTS)])
    divide(whole, parts)
    questions = queries(json.loads((work / "real.json").read_text(encoding="utf-8")), QUERIES)
    vectors = ours.encode(questions, role="query")
    truth = np.load(work / f"truth-{chunks}.npy")
    only = Filter.parse({"metadata": {"share": name_of(SHARES[1])}})
    stores: dict[str, Store] = {"one index": whole, f"{_PARTS} shards": parts}
    memory = {name: _memory(store, vectors, questions) for name, store in stores.items()}
    rows: list[Row] = []
    answers: dict[str, list[list[set[str]]]] = {mode: [] for mode in MODES}
    times: dict[str, Callable[[int], object]] = {}
    for name, store in stores.items():
        retriever = Retriever(store.open(), ours)
        retriever.warm()
        for mode, found in answers.items():
            asked = (SearchRequest(question, k=TOP, mode=mode) for question in questions)
            found.append([{hit.id for hit in retriever.search(request).hits} for request in asked])
        times |= _tasks(name, retriever, questions, vectors, only)
        rows.append(
            {
                "name": f"search of {chunks:,} chunks by meaning",
                "contestant": name,
                "recall": _recall(retriever.generation, vectors, truth[0]),
                "rss_mb": memory[name],
            }
        )
    for mode, found in answers.items():
        same = [len(one & other) / max(1, len(one)) for one, other in zip(*found, strict=True)]
        rows.append(
            {"name": f"hits among the first ten that both give, {mode}", "same": round(float(np.mean(same)), 4)}
        )
    for name, values in interleave(times, range(_MEASURED), repeat).items():
        task, _, contestant = name.partition(": ")
        rows.append({"name": f"{task}, {chunks:,} chunks", "contestant": contestant, **summarise(values)})
    return rows


def divide(whole: FolderStore, parts: ShardStore) -> None:
    """Copy what is live into shards, unless it is there from an earlier run."""
    if whole.live_id() not in parts.ids():
        with closing(whole.read()) as reading:
            parts.write(reading.manifest, reading.entries(), reading.pages())
        parts.make_live(whole.live_id())


def _tasks(
    name: str, retriever: Retriever, questions: list[str], vectors: Vectors, only: Filter
) -> dict[str, Callable[[int], object]]:
    generation = retriever.generation
    return {
        f"dense: {name}": lambda i: generation.search(vectors[i], CANDIDATES),
        f"dense, filter keeps 10%: {name}": lambda i: generation.search(
            vectors[i], CANDIDATES, generation.select(only)
        ),
        f"lexical: {name}": lambda i: generation.search_words(generation.read_query(questions[i]), CANDIDATES),
        f"whole, hybrid: {name}": lambda i: retriever.search(SearchRequest(questions[i], k=TOP)),
        f"whole, hybrid, filter keeps 10%: {name}": lambda i: retriever.search(
            SearchRequest(questions[i], k=TOP, filter=only)
        ),
    }


def _recall(generation: Searchable, vectors: Vectors, truth: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> float:
    """Share of the true neighbours found; a passage of the corpus is named by its row in one index."""
    hits = 0
    for vector, true in zip(vectors, truth, strict=True):
        rows = generation.search(vector, CANDIDATES)[1][:TOP]
        hits += len({int(chunk.id) for chunk in generation.chunks(rows)} & set(true.tolist()))
    return round(hits / truth.size, 4)


def _memory(store: Store, vectors: Vectors, questions: list[str]) -> int:
    """Megabytes that opening a store and searching it adds to a process, but for what processes share."""
    context = multiprocessing.get_context("fork")
    said, saying = context.Pipe(duplex=False)
    process = context.Process(target=_use, args=(store, vectors, questions, saying))
    process.start()
    used = int(said.recv())
    process.join()
    return used


def _use(store: Store, vectors: Vectors, questions: list[str], saying: Connection) -> None:
    before = _private()
    generation = store.open()
    for vector, question in zip(vectors, questions, strict=True):
        generation.search(vector, CANDIDATES)
        generation.chunks(generation.search_words(generation.read_query(question), CANDIDATES)[1][:TOP])
    saying.send(_private() - before)


def _private() -> int:
    """Megabytes of this process that are not of files."""
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("the system does not say how much memory a process has")
