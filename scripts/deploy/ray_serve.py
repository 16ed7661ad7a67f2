#!/usr/bin/env python3
"""Serve on a Ray cluster: every replica is the whole application, with a copy of the index on its node.

Run it on the head of the cluster, see docs/replicas.md. Settings come from the environment, which every node needs as
it was when `ray start` ran there: PILOTLIGHT_INDEX=s3://BUCKET/PREFIX and the rest.
"""

import dataclasses
import signal
import threading

import ray
from a2wsgi import WSGIMiddleware
from ray import serve

from rag.serving.api_keys import check_exposure
from rag.settings import load
from web.server.__main__ import GRACE_S
from web.server.admission import THREADS
from web.wsgi import application

_LOOK_S = 0.1


def build() -> WSGIMiddleware:
    """Build the application of one replica; returns when it answers, so that no request comes to it before."""
    settings = load()
    app = application(dataclasses.replace(settings, workers=1, threads=settings.threads or 1))
    while not app.extensions["retriever"].ready:
        threading.Event().wait(_LOOK_S)
    return WSGIMiddleware(app, workers=THREADS)


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
    """Serve until the process is told to stop."""
    settings = load()
    check_exposure(settings)
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    serve.start(http_options={"host": settings.host, "port": settings.port})
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray would abort
    serve.run(Replica.bind(), name="pilotlight", blocking=True)


if __name__ == "__main__":
    main()
