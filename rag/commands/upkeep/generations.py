"""`pilotlight generations`."""

from contextlib import closing

from rag.commands.upkeep.columns import number, table
from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "store")
def generations(settings: Settings) -> Result:
    """List the generations of the collection."""
    from rag.commands.published import published
    from rag.serving.store_access import chosen_store

    with closing(chosen_store(settings)) as store:
        listed = [generation.as_dict() for generation in store.published()]
        if not listed:
            _ = store.live_id() if settings.store else published(settings)  # says that there is none
    rows = [("", "generation", "created", "documents", "chunks", "MB", "")]
    rows += [
        (
            "*" if item["live"] else "",
            item["id"],
            item["created_at"] or "-",
            number(item["documents"]),
            number(item["chunks"]),
            "-" if item["bytes"] is None else f"{item['bytes'] / 1e6:,.1f}",
            item["problem"],
        )
        for item in listed
    ]
    return {"collection": settings.collection, "generations": listed}, table(rows)
