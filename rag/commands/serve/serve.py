"""`pilotlight serve`."""

import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

from embedder.errors import PilotlightError
from rag.commands.verb import Result, verb
from rag.errors import RagError
from rag.settings import Settings


@verb(
    "index",
    "store",
    "embedder",
    "rerank",
    "serve",
    "page",
    "access",
    "users",
    "answers",
    "insights",
    without=("collection",),
    prints=False,
)
def serve(settings: Settings) -> Result | None:
    """Check that there is something to serve, then become the server. Returns only where there is not."""
    gc.disable()  # until all is imported: nothing of that is garbage
    from multiprocessing import get_context

    from embedder import cpu
    from rag.answer.endpoint import Endpoint
    from rag.commands.embedders import as_built, plans, prepare, verifying
    from rag.commands.serve.workers import share_cores
    from rag.serving.api_keys import check_exposure

    check_exposure(settings)
    if settings.answer_url:
        Endpoint.of(settings)  # says what is wrong with it
    settings = as_built(settings)
    known = plans(settings)
    plan = known[0]  # the rest are of a cross-encoder
    with verifying(known):
        from rag.serving import preflight
    settings = preflight.in_one_process(settings)
    # In a process of its own: what libraries open does not survive the fork of the workers.
    check = get_context("fork").Process(target=_check, args=(preflight.check_servable, settings, plan.fingerprint))
    check.start()
    become_server: Callable[[], NoReturn] = import_module("web.server.__main__").main
    check.join()
    if check.exitcode and check.exitcode < 0:
        raise RagError(f"the check of the index was ended by signal {-check.exitcode}: is there too little memory?")
    if check.exitcode:
        sys.exit(2)  # it has said why
    for each in known:
        prepare(each)  # compiles once, here, and not in every worker
    settings = share_cores(settings, plan.engine, cpu.detect().cores)
    settings = dataclasses.replace(settings, engine=plan.engine, precision=plan.precision)  # not auto, in its status
    os.environ.update(settings.as_environment())
    become_server()


def _check(check: Callable[[Settings, Mapping[str, object]], None], *what: Any) -> None:
    try:
        check(*what)
    except PilotlightError as error:
        print(f"pilotlight: {error}", file=sys.stderr)
        sys.exit(2)
