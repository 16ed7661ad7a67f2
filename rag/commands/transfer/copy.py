"""`pilotlight copy`."""

import sys
from contextlib import closing

import click

from rag.commands.verb import Result, verb
from rag.settings import Settings

_PLACE = "folder of an index, or milvus://HOST:PORT/NAME"


@verb("keep_generations")
@click.option("--from", "source", required=True, metavar="PLACE", help=f"copy from here: {_PLACE}")
@click.option("--to", "target", required=True, metavar="PLACE", help=f"copy to here: {_PLACE}")
@click.option("--generation", metavar="ID", help="id of the generation (default: live)")
@click.option("--quiet", is_flag=True, help="show no progress")
def copy(settings: Settings, source: str, target: str, *, generation: str | None = None, quiet: bool = False) -> Result:
    """Copy a generation from store to store, and make it live there once it has been compared."""
    from rag.clock import StepTimer
    from rag.commands.transfer.copying import copy as copy_generation
    from rag.serving.store_access import store_at

    with (
        closing(store_at(source)) as ours,
        closing(store_at(target)) as theirs,
        StepTimer(sys.stderr, f"copying to {theirs.name}", quiet=quiet) as elapsed,
    ):
        report = copy_generation(ours, theirs, generation, keep=settings.keep_generations, step=elapsed.step)
    return report.as_dict(), report.table()
