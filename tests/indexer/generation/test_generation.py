"""What an opened generation keeps, and gives back."""

import gc
from pathlib import Path

from indexer.generation.generation import Generation
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Site


def test_its_files_are_closed_with_it(work: Work, site: Site) -> None:
    """At once, as garbage may be collected hours later: a file that is open stays on the disk when it is removed."""
    site.routes["/"] = "<h1>Cats</h1><p>Cats sleep."
    work.build(site.url)
    Generation.open(work.index).close()
    gc.collect()
    gc.disable()
    try:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            generation = Generation.open(work.index)
            wanted = generation.read_query("cats slep")
            assert len(generation.search_terms(wanted, 1).rows) == 1
            generation.close()
            del generation, wanted
        assert len(list(Path("/proc/self/fd").iterdir())) == before
    finally:
        gc.enable()
