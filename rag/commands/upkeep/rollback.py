"""`pilotlight rollback`."""

from contextlib import closing

import click

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb("index", "store")
@click.argument("generation", required=False, help="id of the generation (default: the previous one)")
def rollback(settings: Settings, generation: str | None) -> Result:
    """Make an older generation the live one."""
    from rag.serving.store_access import chosen_store, live_id, roll_back

    with closing(chosen_store(settings)) as store:
        before = live_id(store)
        now = roll_back(store, generation)
    report = {"collection": settings.collection, "generation": now, "before": before}
    return report, f"generation {now} is live; previously {before or 'none'}"
