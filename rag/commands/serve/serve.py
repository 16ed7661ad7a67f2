"""`pilotlight serve`."""

import dataclasses
import os
import sys

from rag.commands.verb import Result, verb
from rag.settings import Settings


@verb(
    "index",
    "store",
    "replica",
    "embedder",
    "rerank",
    "serve",
    "page",
    "access",
    "answers",
    without=("collection",),
    prints=False,
)
def serve(settings: Settings) -> Result | None:
    """Check that there is something to serve, then become the server. Does not return."""
    from embedder import cpu
    from indexer.generation.layout import is_url
    from rag.answer.endpoint import Endpoint
    from rag.commands.embedders import plans, prepare
    from rag.commands.serve.workers import share_cores
    from rag.serving.api_keys import check_exposure
    from rag.serving.preflight import check_servable, in_one_process

    check_exposure(settings)
    if settings.answer_url:
        Endpoint.of(settings)  # says what is wrong with it
    plan, *others = plans(settings)
    settings = in_one_process(settings)
    if not is_url(settings.index):  # which may be out of reach for now
        check_servable(settings, plan.fingerprint)
    for each in (plan, *others):
        prepare(each)  # compiles once, here, and not in every worker
    settings = share_cores(settings, plan.engine, cpu.detect().cores)
    settings = dataclasses.replace(settings, engine=plan.engine, precision=plan.precision)  # not auto, in its status
    sys.stderr.flush()
    os.execvpe(  # noqa: S606 - this process becomes the server; no shell is wanted
        sys.executable, [sys.executable, "-m", "web.server"], os.environ | settings.as_environment()
    )
