"""What the verbs of the command line that build, search and serve do; `upkeep` has the others.

Each returns a JSON-ready object and the text for a terminal; `cli` prints one of them.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedder import cpu
from embedder.building import ensure_package, is_built
from embedder.plan import Plan
from indexer.collections import list_collections
from indexer.config import OWN
from indexer.errors import FilterError, IndexMissing, SourceError
from indexer.filter import Filter
from indexer.generation import current_id
from indexer.layout import DEFAULT, is_url
from indexer.publish import disk_errors, nothing_left, prepare
from indexer.wording import counted
from rag.configs import build_config, embedder_config, own_limits
from rag.elapsed import Elapsed
from rag.endpoint import Endpoint
from rag.errors import CollectionMissing, SettingsError
from rag.filters import DAYS, KEYS, LISTS, METADATA, fields_of, key_of
from rag.keys import check_exposure
from rag.lazy import LazyEmbedder
from rag.results import as_text
from rag.retriever import Retriever
from rag.serving import check_servable, in_one_process
from rag.settings import Settings
from rag.stores import chosen_store
from rag.usage import did_you_mean
from rag.workers import share_cores

if TYPE_CHECKING:
    from indexer.progress import Progress
    from rag.configuration import ConfiguredSource

Result = tuple[dict[str, Any], str]


def index(
    sources: list[str],
    settings: Settings,
    *,
    configured: "Sequence[ConfiguredSource]" = (),
    add: bool = False,
    full: bool = False,
    within: Mapping[str, Sequence[str]] | None = None,
    quiet: bool = False,
    watch: bool = False,
    every: str | None = None,
    progress: "Progress | None" = None,
    own: Mapping[str, Any] | None = None,
) -> Result:
    """Read the sources, and publish a generation unless nothing has changed.

    Without sources, those of the configuration file, or else of the live generation, are read again; with `add`, these
    are read as well. With `full`, everything is asked for and cut anew. `within` names, by source, the places that it
    may not leave. `own` has limits by name for the sources that are named here, or for all where none is; they are kept
    with them. With `watch` or `every`, stay and read again what has changed, or every so often, until the process is
    told to stop.
    """
    from indexer.earlier import live_sources
    from indexer.schedule import read_interval
    from indexer.sources import full_name, refuse_bare_host
    from rag.cluster import cluster_of
    from rag.configuration import ConfiguredSource
    from rag.copying import publisher_of, reported
    from rag.freshness import Freshness, entries_of

    seconds = None if every is None else read_interval(every)
    folder = settings.collection_dir
    if add and not sources:
        raise SourceError("--add needs a source")
    for source in sources:
        refuse_bare_host(source)
    limited: Collection[str] = sources
    if not sources and not configured:
        limited = sources = live_sources(published(settings))
    elif add and folder in list_collections(settings.index_dir).values():
        sources = [*live_sources(folder), *sources]
    limited, given = set(map(full_name, limited)), own_limits(own or {})
    named = [
        ConfiguredSource(source, own=given if source in limited else {})
        for source in dict.fromkeys(map(full_name, sources))
    ] or [  # a file says all of it: what it does not say is not kept
        dataclasses.replace(source, own={**dict.fromkeys(OWN), **source.own, **given}) for source in configured
    ]
    entries = entries_of(named, settings.collection, every=seconds, watch=watch)
    config = build_config(settings, within)  # before the model is loaded, so that a bad value is told at once
    embedder = lazy_embedder(settings, quiet=quiet)
    publisher = publisher_of(settings, quiet=quiet)
    if publisher and len({entry.collection for entry in entries}) > 1:
        raise SettingsError(f"{settings.store} holds one collection, but the sources belong to several")
    with nothing_left(settings.index_dir), cluster_of(settings, embedder.fingerprint) as cluster:
        with disk_errors(settings.index_dir):
            prepare(settings.index_dir)
        work = Freshness(
            settings,
            config,
            embedder,
            entries,
            full=full,
            quiet=quiet,
            progress=progress,
            cluster=cluster,
            then=publisher,
            own={(one.collection or settings.collection, one.source): one.own for one in named},
        )
        if watch or every:
            work.keep()
            return work.as_dict(), f"{counted(work.runs, 'run')}, {work.published:,} published, {work.failed:,} failed"
        reports = work.once()
    if len(reports) == 1:
        [report] = reports.values()
        return reported(report, publisher)
    text = "\n\n".join(f"collection   {name}\n{report.table()}" for name, report in reports.items())
    return {"collections": {name: report.as_dict() for name, report in reports.items()}}, text


def remove(sources: list[str], settings: Settings) -> Result:
    """Publish a generation without what came from these sources; nothing is fetched or embedded."""
    from indexer.progress import progress_for
    from indexer.removal import remove_sources
    from rag.copying import publisher_of, reported

    folder = published(settings)
    progress = progress_for(sys.stderr, quiet=True)
    publisher = publisher_of(settings)
    report = remove_sources(sources, folder, keep_generations=settings.keep_generations, progress=progress)
    if publisher:
        publisher(folder)
    return reported(report, publisher)


def search(
    query: str, settings: Settings, *, k: int, mode: str, filter: Filter | None = None, diversity: float = 0.0
) -> Result:
    """Answer one query from the live generation; the object is the body of the REST answer."""
    from rag.live import load_embedder

    if not settings.store:
        published(settings)  # says that there is no such collection
    generation = chosen_store(settings).open()
    _prepare(Plan(embedder_config(settings)))
    retriever = Retriever(
        generation, load_embedder(settings), max_k=settings.max_k, max_query_chars=settings.max_query_chars
    )
    retriever.warm()  # so that the times shown are those of a server
    answer = retriever.search(
        query,
        k=k,
        mode=mode,
        filter=filter,
        per_document=settings.per_document,
        diversity=diversity,
        expand=settings.expand,
        close=settings.close,
    ).as_dict()
    return answer, as_text(answer)


def evaluate(folder: Path, settings: Settings, *, mode: str, fusion: str | None = None) -> Result:
    """Measure retrieval quality on a BEIR folder."""
    try:
        from rag.evaluation import evaluate as run
        from rag.evaluation import read_dataset
    except ModuleNotFoundError as error:
        raise SettingsError("eval is not installed: pip install 'pilotlight[eval]'") from error
    from rag.live import load_embedder

    dataset = read_dataset(folder)
    plan = Plan(embedder_config(settings))
    _prepare(plan)
    embedder = load_embedder(settings)
    scores = run(dataset, embedder, mode=mode, fusion=fusion) | {"precision": plan.precision, "engine": plan.engine}
    return scores, "\n".join(f"{name:>12}  {value}" for name, value in scores.items())


def serve(settings: Settings) -> None:
    """Check that there is something to serve, then become the server. Does not return."""
    check_exposure(settings)
    if settings.answer_url:
        Endpoint.of(settings)  # says what is wrong with it
    plan = Plan(embedder_config(settings))
    settings = in_one_process(settings)
    if not is_url(settings.index):  # which may be out of reach for now
        check_servable(settings, plan.fingerprint)
    _prepare(plan)  # compiles once, here, and not in every worker
    settings = share_cores(settings, plan.engine, cpu.detect().cores)
    settings = dataclasses.replace(settings, engine=plan.engine, precision=plan.precision)  # not auto, in its status
    sys.stderr.flush()
    os.execvpe(  # noqa: S606 - this process becomes the server; no shell is wanted
        sys.executable, [sys.executable, "-m", "web.server"], os.environ | settings.as_environment()
    )


def mcp(settings: Settings, *, server: str | None = None, port: int | None = None) -> None:
    """Offer the tools of `rag.mcp` on the index, or on a server, until the caller ends.

    Over standard input and output, or over HTTP on a port of loopback.
    """
    try:
        from rag import mcp as tools
    except ModuleNotFoundError as error:
        raise SettingsError("mcp is not installed: pip install 'pilotlight[mcp]'") from error

    with ExitStack() as stack:
        if server is not None:
            from rag.client import Client

            library: tools.Library = stack.enter_context(Client(server, os.environ.get("PILOTLIGHT_KEY") or None))
        else:
            from rag.replicas import retriever_of

            if not (settings.store or is_url(settings.index)):
                published(settings)
            _prepare(Plan(embedder_config(settings)))
            retriever = retriever_of(settings)
            retriever.start()
            stack.callback(retriever.close)
            library = tools.LocalLibrary(retriever)
        offered = tools.make_server(library, settings.collection)
        if port is None:
            tools.serve_stdio(offered)
            return
        try:
            tools.serve_http(offered, port)
        except (OSError, OverflowError) as error:
            raise SettingsError(f"cannot listen on {tools.HOST} port {port}: {error}") from error


def warm(settings: Settings) -> Result:
    """Build the compiled package for these settings, or find it built."""
    plan = Plan(embedder_config(settings))
    key = plan.package_key
    report: dict[str, Any] = {
        "model": plan.spec.name,
        "engine": plan.engine,
        "precision": plan.precision,
        "isa": plan.isa,
        "threads": key.threads if key else plan.threads,
    }
    if key is None:
        report |= {"package": None, "built": False, "bytes": 0, "seconds": 0.0}
        return report, f"engine {plan.engine} needs no compilation"
    start = time.monotonic()
    built = _prepare(plan)
    folder = ensure_package(plan, key)
    size = sum(path.stat().st_size for path in folder.iterdir())
    seconds = round(time.monotonic() - start, 1)
    report |= {"package": str(folder), "built": built, "bytes": size, "seconds": seconds}
    done = f"built in {seconds} s" if built else "was compiled before"
    return report, f"{plan.spec.name} ({plan.engine}, {plan.precision}) {done}: {folder}, {size / 1e6:.0f} MB"


def read_filter(pairs: Sequence[str]) -> Filter | None:
    """Make a filter of texts KEY=VALUE, with the names that the REST address uses. Raises FilterError."""
    parameters: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise FilterError("--filter", f"must be KEY=VALUE, such as language=en, not {pair[:80]!r}")
        if name not in (*LISTS, *DAYS) and not name.startswith(METADATA):
            meant = did_you_mean(name, KEYS) or f"; its keys are {', '.join(KEYS)}"
            raise FilterError("--filter", f"has no key {name[:40]!r}{meant}")
        parameters.setdefault(name, []).append(value)
    try:
        return Filter.parse(fields_of(parameters)) if parameters else None
    except FilterError as error:
        raise FilterError(f"--filter {key_of(error.field)}", error.detail) from error


def published(settings: Settings) -> Path:
    """Folder of the collection. Raises IndexMissing, or CollectionMissing where others have been published."""
    folders = list_collections(settings.index_dir)
    folder = settings.collection_dir
    if folder in folders.values():
        return folder
    if settings.collection != DEFAULT or folders:
        raise CollectionMissing(settings.collection, folders)
    current_id(folder)  # says that there is no index, and how to make one
    raise IndexMissing(f"there is no index in {folder}")


def lazy_embedder(settings: Settings, *, quiet: bool = False) -> LazyEmbedder:
    """The embedder of the settings, to be compiled and loaded only if it is needed."""
    from rag.live import load_embedder

    plan = Plan(embedder_config(settings))

    def load() -> Any:
        _prepare(plan, quiet=quiet)
        return load_embedder(settings)

    return LazyEmbedder(plan, load)


def _prepare(plan: Plan, *, quiet: bool = False) -> bool:
    """Build the plan's package where there is none, saying so on stderr. Return whether it was built."""
    key = plan.package_key
    if key is None or is_built(plan):
        return False
    title = f"compiling {plan.spec.name} ({plan.engine}, {plan.precision}) once for this machine"
    with Elapsed(sys.stderr, title, quiet=quiet) as elapsed:
        ensure_package(plan, key, elapsed.step)
    return True
