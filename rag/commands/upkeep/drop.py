"""`pilotlight drop`."""

import click

from rag.commands.verb import Result, verb
from rag.errors import CollectionMissing, SettingsError
from rag.settings import Settings


@verb("index", without=("collection",))
@click.argument("name", help="name of the collection")
@click.option("--yes", is_flag=True, help="confirm the deletion")
def drop(settings: Settings, *, name: str, yes: bool) -> Result:
    """Remove a named collection."""
    from indexer.errors import IndexMissing
    from indexer.generation.layout import DEFAULT, collection_dir
    from indexer.publish.collections import drop_collection, list_collections
    from indexer.publish.publish import disk_errors

    folders = list_collections(settings.index_dir)
    if not collection_dir(settings.index_dir, name).is_dir():
        raise CollectionMissing(name, folders)
    if not yes and name != DEFAULT:
        raise SettingsError(f"drop deletes collection {name!r} and all its generations permanently; confirm with --yes")
    try:
        with disk_errors(settings.index_dir):
            drop_collection(settings.index_dir, name)
    except IndexMissing as error:
        raise CollectionMissing(name, folders) from error
    return {"dropped": name}, f"deleted collection {name}"
