#!/usr/bin/env python3
"""Serve on a Ray cluster: every replica is the whole application, with a copy of the index on its node.

Run it on the head of the cluster, see docs/replicas.md. Settings come from the environment, which every node needs as
it was when `ray start` ran there: PILOTLIGHT_INDEX=s3://BUCKET/PREFIX and the rest.
"""

import signal
from contextlib import suppress
from typing import Any

import ray
from ray import serve

from rag.serving.api_keys import check_exposure
from rag.settings import load
from web.asgi import application
from web.server.__main__ import GRACE_S
from web.server.admission import THREADS


def build() -> Any:
    """Build the application of one replica; returns when it answers, so that no request comes to it before."""
    return application()


@serve.deployment(
    name="pilotlight",
    ray_actor_options={"num_cpus": 1},
    max_ongoing_requests=2 * THREADS,
    graceful_shutdown_timeout_s=GRACE_S,
    autoscaling_config={"min_replicas": 1, "max_replicas": 16, "target_ongoing_requests": THREADS // 4},
)
@serve.ingress(build)
class Replica:
    """One process with one thread for the model; Ray starts more as requests wait."""


def main() -> None:
    """Serve until the process is told to stop, by Ctrl-C or SIGTERM."""
    settings = load()
    check_exposure(settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray would abort
    with suppress(KeyboardInterrupt):
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has put its own there
        serve.start(http_options={"host": settings.host, "port": settings.port})
        serve.run(Replica.bind(), name="pilotlight", blocking=True)
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
