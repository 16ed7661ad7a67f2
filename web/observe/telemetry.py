"""Telemetry of every request: its id, counts and times, a line of the log, and a trace where a collector is named."""

import logging
import re
import secrets
import time
from typing import Any

from flask import Flask, Response, current_app, g, has_app_context, has_request_context, request

from rag.query.results import Answer
from rag.serving.live import LiveRetriever
from rag.serving.pushed_queue import PushedQueue
from web.observe import logs, metrics
from web.observe.metrics import NO_ROUTE, Metrics

HEADER = "X-Request-Id"
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_QUIET = frozenset({"/livez", "/readyz", "/metrics", "/static/<path:filename>", "/embed.js"})  # logged if they fail


class Telemetry:
    """Metrics, logs and traces of one application."""

    def __init__(self, app: Flask, metrics: Metrics) -> None:
        self.metrics = metrics
        self.stop_tracing = logs.start_tracing(app)

    def begin(self) -> None:
        """Note a request, before any other hook."""
        g.began = time.perf_counter()
        given = request.headers.get(HEADER, "")
        g.request_id = given if _SANE_ID.fullmatch(given) else secrets.token_hex(8)
        g.searches = []
        self.metrics.began()

    def end(self, response: Response) -> Response:
        """Note the answer, after all other hooks."""
        response.headers[HEADER] = g.request_id
        seconds = time.perf_counter() - g.began
        route = request.url_rule.rule if request.url_rule else NO_ROUTE
        self.metrics.answered(request.method, route, response.status_code, seconds)
        self._log(route, response.status_code, seconds)
        return response

    def leave(self, error: BaseException | None) -> None:
        """Note that a request is over, however it ended."""
        if "began" in g:  # not in a context that a test makes
            self.metrics.ended()

    def searched(self, answer: Answer, *, mode: str, collection: str, k: int) -> None:
        """Note a search that was answered."""
        self.metrics.searched(answer, mode, collection)
        if not has_request_context():
            return
        found: dict[str, Any] = {"collection": collection, "mode": mode, "k": k, "hits": len(answer.hits)}
        g.searches.append(found)

    def close(self) -> None:
        """Send the traces that are still held."""
        self.stop_tracing()

    def _log(self, route: str, status: int, seconds: float) -> None:
        level = logging.ERROR if status >= 500 and status != 503 else logging.INFO
        if status < 400 and route in _QUIET:
            level = logging.DEBUG
        if not logs.requests.isEnabledFor(level):
            return
        fields: dict[str, Any] = {"request_id": g.request_id, "method": request.method, "route": route}
        fields |= {"status": status, "ms": round(seconds * 1000, 2)}
        if caller := getattr(g.get("caller"), "name", ""):
            fields["key"] = caller
        if len(g.searches) == 1:
            fields |= g.searches[0]
        elif g.searches:
            fields |= {"searches": len(g.searches), "hits": sum(each["hits"] for each in g.searches)}
        logs.write(level, "request", fields)


def install(app: Flask, retriever: LiveRetriever, pushes: PushedQueue | None) -> None:
    """Watch an application. Comes before all other hooks, so that requests which they refuse are counted too."""
    counted = Metrics(lambda: retriever.status(), pushes.waiting if pushes else None)
    telemetry = Telemetry(app, counted)
    app.extensions["metrics"] = counted
    app.extensions["telemetry"] = telemetry
    app.register_blueprint(metrics.blueprint)
    app.before_request(telemetry.begin)
    app.after_request(telemetry.end)
    app.teardown_request(telemetry.leave)


def searched(answer: Answer, *, mode: str, collection: str, k: int) -> None:
    """Note, for the application of this context, a search that was answered."""
    if has_app_context():
        telemetry: Telemetry = current_app.extensions["telemetry"]
        telemetry.searched(answer, mode=mode, collection=collection, k=k)
