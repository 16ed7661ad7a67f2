"""Run `pilotlight serve` and time its functions: `traced_server.py serve --index DIR --workers 1 --port N`.

The route /components returns the number of calls and the CPU time in nanoseconds of each component since the start. A
component is a group of functions. The time of other components that these functions call is excluded.
"""

import functools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

# Functions of each component, as module:name. Time outside all other components counts as "server".
COMPONENTS = {
    "bytes in: HTTP parsed": ("gunicorn.http.parser:Parser.__next__", "gunicorn.http.wsgi:create"),
    "Flask: context, route, hooks": ("flask.app:Flask.__call__",),
    "access": ("web.guards.access:AccessControl.check",),
    "request read and checked": (
        "web.api.requests:parse_query_string",
        "web.api.requests:search_of_parameters",
        "rag.query.retriever:_check",
    ),
    "cache of answers": ("rag.serving.live:LiveRetriever._answer",),
    "query read": ("indexer.generation.lexical.lexical_index:LexicalReader.read",),
    "tokenizer": ("embedder.model.tokenizer:Tokenizer.read", "embedder.model.tokenizer:Tokenizer.has"),
    "queue of the model": ("rag.query.model_queue:QueryEncoder.embed_query",),
    "run of the model *": ("embedder.engines.native:NativeEngine.encode",),
    "dense search *": ("indexer.generation.vectors:VectorReader.search",),
    "lexical search": ("indexer.generation.generation:Generation.search_terms",),
    "lexical search by Tantivy *": ("indexer.generation.lexical.lexical_index:LexicalReader._find",),
    "late interaction *": ("embedder.engines.native:NativeEngine.maxsim",),
    "fusion": ("rag.query.retriever:Retriever._fuse",),
    "choice": ("rag.query.retriever:Retriever._choose",),
    "fetch of texts": ("indexer.generation.documents:DocumentReader.read",),
    "highlights": ("indexer.generation.lexical.analysis:spans", "rag.query.retriever:is_close"),
    "hits and answer": ("rag.query.retriever:Retriever._answer",),
    "JSON": ("web.app:JsonProvider.response",),
    "metrics": ("web.metrics:Metrics.note", "web.metrics:note_search"),
    "log line": ("web.metrics:_log",),
    "bytes out": ("gunicorn.http.wsgi:Response.write", "gunicorn.http.wsgi:Response.close"),
    "rest of the query": ("rag.query.retriever:Retriever.answer_query",),
    "server": ("web.server:Worker.handle",),
}
UNLOCKED = "*"  # suffix of components that run without the GIL
Totals = dict[str, list[int]]  # component → [number of calls, nanoseconds]


class _Thread(threading.local):
    """The measurements of a thread. `nested` is the CPU time in ns that a component has spent in other components."""

    all_totals: list[Totals] = []  # noqa: RUF012 - shared by all threads

    def __init__(self) -> None:
        self.nested = 0
        self.totals: Totals = {name: [0, 0] for name in COMPONENTS}
        self.all_totals.append(self.totals)


_thread = _Thread()


def timed(component: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to count its calls and CPU time for a component. Time in other components is excluded."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        thread = _thread
        before, thread.nested = thread.nested, 0
        start = time.thread_time_ns()
        try:
            return function(*args, **options)
        finally:
            took = time.thread_time_ns() - start
            total = thread.totals[component]
            total[0] += 1
            total[1] += took - thread.nested
            thread.nested = before + took

    return call


def find(component: str, name: str) -> tuple[Any, str]:
    """Return the module or class that contains a function, and the function's name. Raises LookupError if missing."""
    module, _, path = name.partition(":")
    *classes, last = path.split(".")
    try:
        owner = functools.reduce(getattr, classes, import_module(module))
        getattr(owner, last)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"{component}: there is no {name}: correct COMPONENTS in {__file__}") from error
    return owner, last


def trace() -> None:
    """Wrap the functions of all components in every module that has imported them. Raises LookupError if missing."""
    for component, names in COMPONENTS.items():
        for owner, name in [find(component, name) for name in names]:
            function = getattr(owner, name)
            wrapped = timed(component, function)
            setattr(owner, name, wrapped)
            for other in list(sys.modules.values()):
                if vars(other).get(name) is function:
                    setattr(other, name, wrapped)


def reporting(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Add the route /components, which returns the measurements, to a WSGI application."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/components":
            return app(environ, start_response)
        totals = list(_Thread.all_totals)  # a copy, because a new thread may append its totals
        sums = {name: [sum(each[name][i] for each in totals) for i in (0, 1)] for name in COMPONENTS}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(sums).encode()]

    return answer


def main() -> None:
    """Run the command line of Pilotlight with timed components."""
    from web import app

    trace()
    make = app.application

    def application() -> Any:
        wrapped = make()
        wrapped.wsgi_app = reporting(wrapped.wsgi_app)  # type: ignore[method-assign]
        return wrapped

    app.application = application  # type: ignore[assignment]
    import_module("rag.commands.cli").main()


if __name__ == "__main__":
    main()
