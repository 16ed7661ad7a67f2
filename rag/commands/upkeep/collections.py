"""`pilotlight collections`."""

from typing import Any

from rag.commands.upkeep.columns import number, table
from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", without=("collection",))
def collections(settings: Settings) -> Result:
    """List the collections of the index."""
    from embedder.errors import PilotlightError
    from indexer.generation.current import current_id
    from indexer.generation.layout import GENERATIONS
    from indexer.generation.manifest import read_manifest
    from indexer.publish.collections import list_collections
    from rag.commands.published import described

    folders = list_collections(settings.index_dir)
    if not folders:
        current_id(settings.index_dir)  # says that there is no index, and how to make one
    listed: list[dict[str, Any]] = []
    for name, folder in folders.items():
        item: dict[str, Any] = dict.fromkeys(("generation", "created_at", "documents", "chunks", "bytes"))
        item = {"name": name, **item, "problem": ""}
        try:
            item |= described(read_manifest(folder / GENERATIONS / current_id(folder)))
        except PilotlightError as error:
            item["problem"] = str(error)
        listed.append(item)
    rows = [("collection", "generation", "created", "documents", "chunks", "")]
    rows += [
        (
            item["name"],
            item["generation"] or "-",
            item["created_at"] or "-",
            number(item["documents"]),
            number(item["chunks"]),
            item["problem"],
        )
        for item in listed
    ]
    return {"collections": listed}, table(rows)
