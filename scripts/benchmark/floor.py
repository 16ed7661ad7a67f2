"""What a search is made of, each part alone in one thread, and for how long a request holds the interpreter's lock."""

import io
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.load import make_queries
from benchmark.overload import ready_index
from benchmark.report import OURS, Row
from benchmark.timing import interleave, summarise
from embedder import Embeddings
from indexer.generation.generation import Generation
from rag.query.request import SearchRequest
from rag.query.retriever import CANDIDATES, Retriever
from rag.serving.live import LiveRetriever
from rag.settings import load

_QUERIES = 64
_TOGETHER = 16  # queries in one run of the model, as of so many clients


def floor(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Measure the parts of a search of ten hits, and the whole of it up to the WSGI answer; see `_lock_held`.

    Uses the index in the work folder if there is one. Model, engine and precision are those of the environment, the
    model's threads one, as `serve` has them.
    """
    os.environ["PILOTLIGHT_THREADS"] = "1"
    settings = load()
    ours = Embeddings(settings.embedder_config())
    ready_index(source, chunks, work, ours)
    generation = Generation.open(work / "index")
    texts = [chunk.text for chunk in generation.chunks(np.arange(min(2_000, generation.chunk_count)))]
    queries = make_queries(texts, ours)[:_QUERIES]
    retriever = Retriever(generation, ours)
    retriever.warm()
    app, live = _application(work / "index")
    seconds = interleave(_parts(retriever, ours, app, queries), range(len(queries)), repeat)
    rows = [{"name": name, "contestant": OURS, **summarise(values)} for name, values in seconds.items()]
    free = sum(statistics.median(seconds[part]) for part in ("tokenizer", "model", "dense")) * 1000
    held = _lock_held(lambda i: _ask(app, queries[i % len(queries)]), free, repeat)
    rows.append({"name": "the request, holding the interpreter's lock", "contestant": OURS, "median_ms": held})
    live.close()
    generation.close()
    return [row | {"name": f"{row['name']}, {len(texts):,} passages, {ours.precision}"} for row in rows]


def _parts(retriever: Retriever, ours: Embeddings, app: Any, queries: list[str]) -> dict[str, Callable[[int], object]]:
    generation = retriever.generation
    tokenizer, engine = ours._tokenizer, ours._engine
    ids = [tokenizer([query], "query")[0] for query in queries]
    vectors = ours.encode(queries, role="query")
    answers = [retriever.search(SearchRequest(query)) for query in queries]
    rows = [generation.search(vector, 10)[1] for vector in vectors]
    bodies = [answer.as_dict() for answer in answers]
    together = [ids[(i + j) % len(ids)] for i in range(len(ids)) for j in range(_TOGETHER)]

    def batch(i: int) -> object:
        return engine.encode(together[i * _TOGETHER : (i + 1) * _TOGETHER])

    return {
        "tokenizer": lambda i: tokenizer([queries[i]], "query"),
        "model": lambda i: engine.encode([ids[i]]),
        f"model, {_TOGETHER} queries": batch,
        "dense": lambda i: generation.search(vectors[i], CANDIDATES),
        "lexical": lambda i: generation.search_words(
            generation.read_query(queries[i], is_word=ours.has_word), CANDIDATES
        ),
        "texts": lambda i: generation.chunks(rows[i]),
        "JSON": lambda i: app.json.dumps(bodies[i]),
        "the search": lambda i: retriever.search(SearchRequest(queries[i])),
        "the request": lambda i: _ask(app, queries[i]),
    }


def _application(index: Path) -> tuple[Any, LiveRetriever]:
    from web.app import create_app

    settings = load({"index": str(index)})
    live = LiveRetriever(settings)
    live.start()
    app = create_app(live, settings)
    if _ask(app, "ready") != "200 OK":  # which waits for the model
        raise RuntimeError("the application does not answer")
    return app, live


def _ask(app: Any, query: str) -> str:
    """Send a request to the application, as the server does; return the status."""
    from urllib.parse import quote

    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/api/v1/search",
        "QUERY_STRING": f"k=10&q={quote(query)}",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8642",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1:8642",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    said: list[str] = []
    body = app(environ, lambda status, headers, error=None: said.append(status))
    b"".join(body)
    body.close()
    return said[0]


def _lock_held(ask: Callable[[int], object], free_ms: float, repeat: int) -> float:
    """Return for how many milliseconds of a request the lock is held, at most.

    It is the processor time of the request's thread, without that of what gives the lock back, measured alone: the
    model, the tokenizer and the dense search. SQLite and Tantivy give it back too, but count here.
    """
    spent = []
    for i in range(_QUERIES * repeat):
        began = time.thread_time()
        ask(i)
        spent.append(time.thread_time() - began)
    return round(statistics.median(spent) * 1000 - free_ms, 3)
