"""`pilotlight publish`."""

from typing import Any

import click

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "store", "keep_generations")
@click.argument("generation", required=False, help="id of it, if it is to be this one and no newer (default: any)")
def publish(settings: Settings, generation: str | None) -> Result:
    """Make the generation live that was held back."""
    from indexer.errors import IndexMissing
    from indexer.publish.collections import live_id
    from indexer.publish.held_back import held_back
    from indexer.publish.publish import roll_back
    from rag.commands.published import published
    from rag.serving.publisher import publisher_of

    folder = published(settings)
    held = held_back(folder)
    if held is None or generation not in (None, held.generation):
        there = f"it is {held.generation} that is" if held else "none is"
        asked = f"generation {generation}" if generation else "no generation"
        raise IndexMissing(f"{asked} is held back in {folder}: {there}; rollback makes others live")
    before = live_id(folder)
    report: dict[str, Any] = {
        "collection": settings.collection,
        "generation": roll_back(folder, held.generation),
        "before": before,
    }
    text = f"generation {held.generation} is live; previously {before or 'none'}"
    if publisher := publisher_of(settings):
        publisher(folder)
        report["store"] = publisher.done
        text += f"\nit is live in {settings.store}"
    return report, text
