"""How the documents that a query found divide: by source, language, kind and folder. Pure, microseconds each."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

if TYPE_CHECKING:  # `rag.Client` counts nothing, and starts sooner without it
    from indexer.generation.documents import DocumentFacts

MOST = 10  # values of a facet, the most frequent ones
FACETS = ("source", "language", "content_type", "path")  # each is also the name of a filter, which takes its values


class Share(TypedDict):
    """How many of the documents have a value."""

    value: str
    count: int


def count_facets(documents: Iterable["DocumentFacts"]) -> dict[str, list[Share]]:
    """Count documents by each of FACETS, the most frequent value first; a value that is not known is not counted.

    `path` has the folders one level below the one that all documents share, so that each choice narrows further.
    """
    documents = list(documents)
    counts = {
        "source": Counter(facts.source for facts in documents),
        "language": Counter(facts.language for facts in documents if facts.language),
        "content_type": Counter(facts.content_type for facts in documents),
        "path": Counter(_folders(facts.url for facts in documents)),
    }
    return {name: _shares(counts[name]) for name in FACETS}


def _shares(counts: Counter[str]) -> list[Share]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ordered[:MOST]]


def _folders(urls: Iterable[str]) -> Iterable[str]:
    """The folder of each url that has one below what all of them share."""
    folders = [_folders_of(url) for url in urls]
    if not folders:
        return
    # the least and the greatest share no more than all do
    least, greatest = min(folders), max(folders)
    shared = 0
    while shared < len(least) and least[shared : shared + 1] == greatest[shared : shared + 1]:
        shared += 1
    for parts in folders:
        if len(parts) > shared:
            yield "/" + "/".join(parts[: shared + 1])


def _folders_of(url: str) -> list[str]:
    try:
        path = urlsplit(url).path
    except ValueError:  # of a document made by hand: [ without ]
        return []
    return [part for part in path.split("/")[:-1] if part]
