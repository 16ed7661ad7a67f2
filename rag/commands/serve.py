"""The verbs `serve`, `mcp` and `keys`, which run the web server or the tool server and manage API keys."""

import ctypes
import dataclasses
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
import msgspec

from embedder.errors import PilotlightError
from indexer.config import SOURCE_SETTINGS
from rag.access import Grant, Key, KeyFile, check_exposure, reader_names
from rag.commands.cli import CommandContext, Result, report_error, verb
from rag.errors import KeysError, RagError, SettingsError
from rag.query.request import ALL, DEFAULT_COLLECTION, parameters_of
from rag.settings import Settings

if TYPE_CHECKING:
    from indexer.pipeline.progress import BuildReport

Command = TypeVar("Command", bound=Callable[..., Any])
_INDEXED_BYTE = b"i"
_PR_SET_PDEATHSIG = 1
MAX_DEFAULT_WORKERS = 16  # limits memory, because each worker loads the vectors


_SERVING_GROUPS = ("index", "store", "embedder", "rerank", "serve", "page", "access", "users", "answers", "insights")
_INDEXING_GROUPS = ("build", "crawl", "chunk", "ocr")


@verb(*_SERVING_GROUPS, *_INDEXING_GROUPS, without=("collection",), prints=False)
@click.argument(
    "source",
    nargs=-1,
    type=click.Path(readable=False),
    help="site, repository, bucket, folder or file to index first, unless the index already has exactly these sources; "
    "folders and files are watched (default: serve the index as it is)",
)
@click.pass_obj
def serve(context: CommandContext, /, settings: Settings, *, source: Sequence[str]) -> Result | None:
    """Check that the index can be served, and run the web server in this process."""
    gc.disable()  # makes the imports faster; the server enables garbage collection again
    from multiprocessing import get_context

    from embedder import cpu
    from rag.answer.prompt import Endpoint
    from rag.commands import models

    check_exposure(settings)
    if settings.answer_url:
        Endpoint.of(settings)  # raises SettingsError
    if source:
        wait_until_indexed = start_indexing(settings, source)
        settings = context.settings(without=SOURCE_SETTINGS)
        import_module("web.server")  # while the first build is running
        wait_until_indexed()
    settings = models.with_index_precision(settings)
    plan, *rerank_plans = models.plans(settings)
    plans = [plan, plan.queries, *rerank_plans]
    with models.verify_in_background(plans):
        from rag.stores import check_servable
    # A separate process checks the index, because libraries keep files open, which the workers must not inherit.
    check = get_context("fork").Process(target=_check, args=(check_servable, settings, plan.fingerprint))
    check.start()
    become_server: Callable[[], NoReturn] = import_module("web.server").main
    check.join()
    if check.exitcode and check.exitcode < 0:
        raise RagError(f"the check of the index was ended by signal {-check.exitcode}: is there too little memory?")
    if check.exitcode:
        sys.exit(2)  # the process has printed the error
    models.prepare(*plans)  # once for all workers
    settings = share_cores(settings, plan.engine, cpu.detect().cores)
    query_precision = "same" if plan.queries is plan else plan.queries.precision
    settings = dataclasses.replace(
        settings, engine=plan.engine, precision=plan.precision, query_precision=query_precision
    )
    os.environ.update(settings.as_environment())
    become_server()


def start_indexing(settings: Settings, sources: Sequence[str]) -> Callable[[], None]:
    """Start a process that indexes the sources, and then indexes folders and files again after each change.

    Returns a function that waits until the sources are indexed, and exits with code 2 if this fails. The function does
    not wait if the index already has exactly these sources.
    """
    from indexer.network.urls import address_kind, full_name
    from rag.commands.models import sources_of_index

    is_live = sources_of_index(settings) == [full_name(source) for source in sources]
    follows = any(address_kind(source) is None for source in sources)
    reader, writer = os.pipe()
    server = os.getpid()
    if is_live:
        print(f"using the index of {', '.join(sources)}", file=sys.stderr, flush=True)
        os.write(writer, _INDEXED_BYTE)
    # `multiprocessing` would make this process and the workers wait for the child process before they exit.
    if (follows or not is_live) and os.fork() == 0:
        gc.enable()
        code = 1
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        try:
            if os.getppid() == server:  # the server may have ended before `prctl`
                code = _index(settings, sources, writer, watch=follows, is_live=is_live)
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)

    def wait() -> None:
        with os.fdopen(reader, "rb") as ready:
            if ready.read(1) != _INDEXED_BYTE:
                sys.exit(2)  # the child has printed the error

    return wait


def _index(settings: Settings, sources: Sequence[str], writer: int, *, watch: bool, is_live: bool) -> int:
    """Run `index` in the forked process, and return the exit code. Writes a byte to the pipe after the first build."""
    from rag.commands.index import index

    def announce(report: "BuildReport") -> None:
        print(report.table(), file=sys.stderr, flush=True)
        os.write(writer, _INDEXED_BYTE)

    try:
        flags = {"add": False, "full": False, "allow_shrink": False, "quiet": is_live}
        index(settings, source=sources, watch=watch, on_first=None if is_live else announce, **flags)
    except (PilotlightError, MemoryError) as error:
        return report_error(error)
    except KeyboardInterrupt:
        return 130
    except Exception:  # noqa: BLE001 - the code of the parent process must not handle it
        traceback.print_exc()
        return 1
    return 0


def share_cores(settings: Settings, engine: str, cores: int) -> Settings:
    """Return the settings with `workers` and `threads` chosen for the number of cores, unless they are already set.

    On up to 16 cores, the native engine gets one worker per core with one thread each. Threads wait for each other if
    they share cores, and the Python code of a query takes as long as the model, so more workers are faster than more
    threads. Other engines compile the model for a fixed number of threads, so `threads` does not change.
    """
    workers, threads = settings.workers, settings.threads
    if engine == "native":
        workers = workers or (max(1, cores // threads) if threads else min(cores, MAX_DEFAULT_WORKERS))
        threads = threads or max(1, cores // workers)
    else:
        workers = workers or max(1, cores // (threads or cores))
    return dataclasses.replace(settings, workers=workers, threads=threads)


def _check(check: Callable[[Settings, Mapping[str, object]], None], *arguments: Any) -> None:
    try:
        check(*arguments)
    except PilotlightError as error:
        sys.exit(report_error(error))


@verb("index", "store", "embedder", "rerank", prints=False)
@click.option("--server", metavar="URL", help="query this running server instead of reading an index")
def mcp(settings: Settings, *, server: str | None) -> None:
    """Serve the tools over standard input and output until the client disconnects."""
    try:
        from rag.adapters.mcp import serve_stdio
    except ModuleNotFoundError as error:
        raise SettingsError("mcp is not installed: pip install 'pilotlight[mcp]'") from error

    # With Python's handler, Ctrl-C would wait for the thread that reads standard input.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with ExitStack() as stack:
        if server is not None:
            from rag.client import Client

            key = os.environ.get("PILOTLIGHT_KEY") or None
            serve_stdio(stack.enter_context(Client(server, key, http_proxy=settings.http_proxy)).call_tool)
        else:
            from rag.adapters.tools import Tools
            from rag.commands import models
            from rag.serving.follower import Follower
            from rag.serving.live import LiveRetriever

            if not settings.store:
                models.published_folder(settings)
            settings = models.with_index_precision(settings)
            models.prepare(*(plan.queries for plan in models.plans(settings)))
            retriever = LiveRetriever(Follower(settings))
            retriever.start()
            stack.callback(retriever.close)
            is_default = settings.collection == DEFAULT_COLLECTION
            serve_stdio(Tools(retriever, retriever.search, ALL if is_default else settings.collection).call)


def _several(name: str, help: str, metavar: str = "") -> Callable[[Command], Command]:
    return click.option(f"--{name}", metavar=metavar or name.upper(), multiple=True, help=help)


@verb("index", "keys", without=("collection",))
@click.argument("action", type=click.Choice(("add", "list", "remove")), metavar="ACTION", help="add, list or remove")
@click.argument("name", required=False, help="name of the key, such as its user's name")
@click.option(
    "--role", metavar="ROLE", default="read", help="role of the key: read (default), or write, which includes read"
)
@_several(
    "origin",
    "site whose pages contain the key, such as https://docs.example.org; the key then only allows searches from there; "
    "may be repeated",
)
@_several("collection", "collection that the key may use (default: all); may be repeated", "NAME")
@_several(
    "filter",
    "filter of the documents that the key may read, such as meta.team=payments or path=/docs; may be repeated; "
    "not with the role write",
    "KEY=VALUE",
)
@_several("user", "user for whom access lists are applied to the key; may be repeated", "NAME")
@_several("group", "group for which access lists are applied to the key; may be repeated", "NAME")
@click.option("--stdin", "from_stdin", is_flag=True, help="read the key from standard input instead of generating one")
def keys(
    settings: Settings, *, action: str, name: str | None, role: str, from_stdin: bool, **of_key: tuple[str, ...]
) -> Result:
    """Create, list or remove keys of the server."""
    from rag.commands.search import read_filter

    file = KeyFile(settings.keys_file)
    if action == "list":
        keys = file.read()
        lines = []
        for key in keys:
            words = [*key.origins, *sorted(key.grant.collections or ())]
            words += [f"{name}={value}" for name, value in parameters_of(key.grant.filter)]
            scope = " ".join([*words, *sorted(key.grant.readers or ())])
            lines.append(f"{key.name:<24}  {key.role:<5}  {key.created}  {scope}".rstrip())
        return {"keys": [_facts(key) for key in keys]}, "\n".join(lines) or "there are no keys"
    if name is None:
        raise KeysError(f"keys {action} needs the NAME of a key")
    if action == "remove":
        key = file.remove(name)
        return _facts(key), f"removed key {key.name}"
    secret = sys.stdin.readline().rstrip("\r\n") if from_stdin else None
    users, groups = of_key["user"], of_key["group"]
    readers = reader_names(users, groups) if users or groups else None
    grant = Grant(frozenset(of_key["collection"]) or None, read_filter(of_key["filter"]), readers)
    shown = file.add(name, role, secret, of_key["origin"], grant)
    key = next(key for key in file.read() if key.name == name)
    text = f"{shown}\nkey {name} ({role}) will not be shown again; {file.path} has only its digest"
    return {**_facts(key), "key": shown}, text


def _facts(key: Key) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(key)
    del fields["sha256"]
    return {"origins": [], **fields}
