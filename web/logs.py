"""Configure the server's log, and OpenTelemetry traces if an environment variable names a collector.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 pilotlight serve

Other variables are documented by OpenTelemetry. The extra `pilotlight[otel]` installs the libraries.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import msgspec
from flask import Flask, g, has_request_context
from gunicorn.glogging import Logger
from gunicorn.systemd import sd_notify

from rag.errors import SettingsError

COLLECTORS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PRIVATE_SPAN_ATTRIBUTES = ("http.target", "http.url", "net.peer.ip", "net.peer.port", "client.address", "url.query")
FIELDS = "fields"
_ENCODE = msgspec.json.Encoder(enc_hook=str).encode
_STDERR = 2
_TRACING = "opentelemetry.instrumentation.flask"

requests = logging.getLogger("pilotlight.request")


class TextFormatter(logging.Formatter):
    """Formats log records as text: time, level, message, and each field as name=value, with the value in JSON."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record with its fields, without the traceback."""
        shown = [super().formatMessage(record)]
        shown += [f"{name}={_ENCODE(value).decode()}" for name, value in _fields(record).items()]
        return " ".join(shown)


class JsonFormatter(logging.Formatter):
    """Formats log records as JSON: time (UTC), level, logger, message, fields and, for an exception, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _ENCODE(line).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, FIELDS, {}))
    if "request_id" not in fields and has_request_context() and (log_record := g.get("request_log")):
        fields["request_id"] = log_record.id
    return fields


class LineHandler(logging.Handler):
    """Writes each log record to standard error in one system call, so that threads need no lock."""

    def createLock(self) -> None:
        """Create no lock, unlike the base class."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one line."""
        try:
            os.write(_STDERR, f"{self.format(record)}\n".encode(errors="backslashreplace"))
        except Exception:  # noqa: BLE001 - logging must not fail its caller, as in Python's handlers
            self.handleError(record)


class ServerLogger(Logger):  # type: ignore[misc]
    """Logger of gunicorn that passes messages to the server's log handler."""

    def setup(self, cfg: Any) -> None:
        """Set up gunicorn's loggers without gunicorn's handlers."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def exception(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log an error with its traceback. Timeouts of slow clients are logged at level DEBUG."""
        if isinstance(sys.exception(), BlockingIOError):
            self.debug("a client was too slow: %s", msg)
        else:
            super().exception(msg, *args, **options)


def configure(log_format: str) -> None:
    """Log to standard error: Pilotlight's messages from level INFO, and those of libraries from level WARNING."""
    logging._srcfile = None  # saves the search for the line that logs, which no format shows
    handler = LineHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("pilotlight").setLevel(logging.INFO)


def announce(url: str, systemd: str, wait: Callable[[], object]) -> None:
    """Log the server's URL. After `wait` returns, report readiness to systemd. Call this in the main process."""
    logging.getLogger("pilotlight").info("listening on %s", url)

    def report_ready() -> None:
        wait()
        os.environ["NOTIFY_SOCKET"] = systemd
        sd_notify("READY=1", requests, unset_environment=True)

    if systemd:
        threading.Thread(target=report_ready, daemon=True).start()


def check_tracing() -> bool:
    """Return whether requests are traced. Raises SettingsError if a collector is set but the library is missing."""
    collector = next((name for name in COLLECTORS if os.environ.get(name)), None)
    if collector is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    try:
        import_module(_TRACING)
    except ImportError:
        message = f"{collector} is set, but traces need pip install 'pilotlight[otel]': install it or unset it"
        raise SettingsError(message) from None
    return True


def start_tracing(app: Flask) -> Callable[[], None]:
    """Trace the requests of an application if tracing is configured. Returns a function that sends pending traces."""
    if not check_tracing():
        return lambda: None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.flask import FlaskInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    def hide(span: Any, status: str, headers: object) -> None:
        if span and span.is_recording():
            span.set_attributes({name: "" for name in _PRIVATE_SPAN_ATTRIBUTES if name in span.attributes})

    os.environ.setdefault("OTEL_SERVICE_NAME", "pilotlight")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    FlaskInstrumentor().instrument_app(app, response_hook=hide, tracer_provider=provider)  # type: ignore[no-untyped-call]
    return provider.shutdown
