"""`pilotlight sources`."""

from rag.commands.upkeep.columns import number, table
from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index")
def sources(settings: Settings) -> Result:
    """List what the live generation was made from."""
    from rag.commands.published import published
    from rag.serving.source_facts import read_sources

    generation, listed = read_sources(published(settings))
    rows = [("source", "kind", "documents", "chunks", "fetched", "modified", "settings")]
    rows += [
        (
            item.source,
            item.kind,
            number(item.documents),
            number(item.chunks),
            item.fetched_at or "-",
            item.modified or "-",
            " ".join(f"--{name.replace('_', '-')} {value or repr('')}" for name, value in item.own.items()),
        )
        for item in listed
    ]
    report = {
        "collection": settings.collection,
        "generation": generation,
        "sources": [item.as_dict() for item in listed],
    }
    return report, table(rows)
