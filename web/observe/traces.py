"""OpenTelemetry traces of requests, where the environment names a collector; otherwise nothing of it is even imported.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 pilotlight serve

The other variables of OpenTelemetry work as it says itself. The extra `pilotlight[otel]` brings the library.
"""

import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from flask import g, request

from rag.errors import SettingsError
from rag.query.results import Answer

if TYPE_CHECKING:
    from opentelemetry.trace import Span

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check() -> bool:
    """Return whether requests are traced. Raises SettingsError where they should be and the library is missing."""
    wanted = next((name for name in VARIABLES if os.environ.get(name)), None)
    if wanted is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if not all(_is_installed(name) for name in _LIBRARIES):
        raise SettingsError(f"{wanted} is set, but traces need pip install 'pilotlight[otel]': install it or unset it")
    return True


def start() -> "Traces | None":
    """Begin to trace in this process, where that is wanted. Raises SettingsError as `check` does."""
    return Traces() if check() else None


class Traces:
    """Spans of requests and of the stages of their searches, sent in the background."""

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        named = bool(os.environ.get("OTEL_SERVICE_NAME"))
        resource = Resource.create({} if named else {"service.name": "pilotlight"})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("pilotlight")
        self._propagator = TraceContextTextMapPropagator()
        self._server, self._failed = SpanKind.SERVER, Status(StatusCode.ERROR)

    def begin(self) -> None:
        """Open the span of a request, below the caller's if there is a traceparent."""
        parent = self._propagator.extract(dict(request.headers.items(lower=True)))
        g.span = self._tracer.start_span(request.method, parent, self._server)

    def end(self, route: str, status: int) -> None:
        """Close the span of a request."""
        span: Span = g.span
        span.update_name(f"{request.method} {route}")
        attributes: dict[str, Any] = {"http.request.method": request.method, "http.route": route}
        span.set_attributes(attributes | {"http.response.status_code": status, "pilotlight.request_id": g.request_id})
        if status >= 500:
            span.set_status(self._failed)
        span.end()

    def searched(self, answer: Answer, mode: str, collection: str, k: int) -> None:
        """Add the spans of a search that has just ended.

        Their lengths are as measured. Where they begin follows from the order of the stages, the search by words beside
        the embedding; so a stage that ran twice is one span.
        """
        from opentelemetry.trace import set_span_in_context

        now = time.time_ns()
        took = {stage: int(milliseconds * 1e6) for stage, milliseconds in answer.took_ms.items()}
        began = now - took.get("total", 0)
        attributes: dict[str, str | int] = {
            "pilotlight.mode": mode,
            "pilotlight.collection": collection,
            "pilotlight.generation": answer.generation,
            "pilotlight.k": k,
            "pilotlight.hits": len(answer.hits),
        }
        whole = self._tracer.start_span("search", set_span_in_context(g.span), attributes=attributes, start_time=began)
        inside = set_span_in_context(whole)
        found = began + max(took.get("embed", 0) + took.get("dense", 0), took.get("lexical", 0))
        starts = {"embed": began, "dense": began + took.get("embed", 0), "lexical": began, "rerank": found}
        starts["fuse"] = found + took.get("rerank", 0)
        starts["sentences"] = now - took.get("sentences", 0)
        for stage, at in starts.items():
            if took.get(stage):
                self._tracer.start_span(stage, inside, start_time=at).end(at + took[stage])
        whole.end(now)

    def close(self) -> None:
        """Send what is still held, and stop."""
        self._provider.shutdown()


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a parent of it is missing
        return False
