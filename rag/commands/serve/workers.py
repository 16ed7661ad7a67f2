"""How many processes serve, and how many threads the model of each has."""

import dataclasses

from rag.settings import Settings

MOST_WORKERS = 16  # by default; each holds the vectors in memory, and a larger machine gives each more threads instead


def share_cores(settings: Settings, engine: str, cores: int) -> Settings:
    """Return settings with `workers` and `threads` resolved for serving; what was set stays as it was.

    The native engine gets one thread for each worker: threads of one call wait for each other, so they stall where
    anything else runs on their cores, and Python is busy for about as long as the model is. Packages of the other
    engines are compiled for a number of threads, and the index was built with the package for all cores.
    """
    workers, threads = settings.workers, settings.threads
    if engine == "native":
        workers = workers or (max(1, cores // threads) if threads else min(cores, MOST_WORKERS))
        threads = threads or max(1, cores // workers)
    else:
        workers = workers or max(1, cores // (threads or cores))
    return dataclasses.replace(settings, workers=workers, threads=threads)
