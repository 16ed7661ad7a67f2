"""`pilotlight search`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rag.commands.verb import Result, Value, verb
from rag.declaration import read_value
from rag.query.request import OPTIONS, Limits, SearchRequest
from rag.settings import Settings

if TYPE_CHECKING:
    from indexer.filter import Filter

Command = TypeVar("Command", bound=Callable[..., Any])


def option(name: str, help: str, flag: str = "") -> Callable[[Command], Command]:
    """Declare the flag of a search option, whose type, choices and default `SearchRequest` has."""
    known = OPTIONS[name]
    read = Value(partial(read_value, kind=known.kind), known.choices)
    return click.option(flag or f"--{name}", metavar=name.upper(), type=read, default=known.default, help=help)


MODE = option("mode", "how to search: hybrid (default), dense or lexical")


@verb(
    "index",
    "store",
    "embedder",
    "rerank",
    "serve",
    without=("host", "port", "workers", "log_format", "log_queries"),
)
@click.argument("query", nargs=-1, required=True, help="the question; several words are one question")
@option("k", "hits to return (default: 10)", "-k")
@MODE
@click.option(
    "--filter",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="search only documents that match; KEY is source, url_prefix, path, language, content_type, from, to or "
    "meta.NAME; repeat a key to allow several values",
)
@click.option("--rerank", is_flag=True, help="have the cross-encoder of rerank_model read the best candidates anew")
@click.option("--explain", is_flag=True, help="say of each hit why it is where it is")
@option("diversity", "from 0 to 1: prefer hits that differ from each other (default: 0)")
def search(settings: Settings, *, query: Sequence[str], pairs: Sequence[str], **options: Any) -> Result:
    """Answer one query, whose words may come one by one, from the live generation."""
    return answer(" ".join(query), settings, filter=read_filter(pairs), **options)


def answer(query: str, settings: Settings, **options: Any) -> Result:
    """Answer one query from the live generation; the object is the body of the REST answer.

    `options` are those of `SearchRequest`.
    """
    from rag.commands.embedders import as_built, plans, prepare, verifying

    settings = as_built(settings)
    known = plans(settings)
    with verifying(known):
        from rag.commands.published import published
        from rag.query.results import as_text
        from rag.query.retriever import Retriever
        from rag.rerank_queue import RerankQueue
        from rag.serving.live import load_embedder, load_reranker
        from rag.serving.store_access import chosen_store

    if not settings.store:
        published(settings)  # says that there is no such collection
    generation = chosen_store(settings).open()
    for plan in known:
        prepare(plan)
    model = load_reranker(settings)
    reranker = RerankQueue(model) if model else None
    retriever = Retriever(generation, load_embedder(settings), reranker=reranker, limits=Limits.of(settings))
    retriever.warm()  # so that the times shown are those of a server
    found = retriever.search(SearchRequest(query, **options)).as_dict()
    return found, as_text(found)


def read_filter(pairs: Sequence[str]) -> "Filter | None":
    """Make a filter of texts KEY=VALUE, with the names that the REST address uses. Raises FilterError."""
    from indexer.errors import FilterError
    from indexer.filter import Filter
    from rag.query.filters import DAYS, KEYS, LISTS, METADATA, fields_of, key_of
    from rag.suggestions import did_you_mean

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
