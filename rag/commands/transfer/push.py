"""`pilotlight push`."""

import time

import click

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "keep_generations")
@click.argument("url", help="s3://BUCKET/PREFIX, or file:///FOLDER for a shared folder")
@click.option("--generation", metavar="ID", help="id of the generation (default: live)")
def push(settings: Settings, url: str, generation: str | None) -> Result:
    """Publish a generation of the collection at an address."""
    from indexer.publish.collections import size_of
    from indexer.stores.remote.remote_collection import RemoteCollection
    from indexer.stores.remote.upload import upload
    from rag.commands.published import described, published

    start = time.monotonic()
    folder = published(settings)
    done = upload(
        folder,
        RemoteCollection(url).collection(settings.collection),
        keep=settings.keep_generations,
        generation_id=generation,
    )
    report = {
        "url": url,
        "collection": settings.collection,
        **described(done.manifest),
        "sent_bytes": done.sent,
        "removed": done.removed,
        "seconds": round(time.monotonic() - start, 3),
    }
    whole = size_of(done.manifest)
    text = f"generation {done.manifest.id} is live at {url}: {done.sent / 1e6:,.1f} of {whole / 1e6:,.1f} MB sent"
    return report, text + (f", removed {', '.join(done.removed)}" if done.removed else "")
