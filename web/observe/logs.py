"""The server's log: a line for each request and each event, for people or, as JSON, for machines."""

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from flask import g, has_request_context
from gunicorn.glogging import Logger

QUERY_CHARS = 300  # of a query that is logged: a line longer than a pipe takes at once would mix with another worker's
_FIELDS = "fields"  # attribute of a record that carries them
_PLAIN = re.compile(r"[\w.:/@%+,-]+", re.ASCII)

requests = logging.getLogger("pilotlight.request")


class Options(Protocol):
    """The settings of the log."""

    @property
    def log_format(self) -> str:
        """Either text or json."""


class TextFormatter(logging.Formatter):
    """Time, level, message, and fields as name=value; what could be taken for another field or line is quoted."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Add the fields to the message."""
        pairs = [f"{name}={_quoted(value)}" for name, value in _fields(record).items()]
        return " ".join([super().formatMessage(record), *pairs])


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time (UTC), level, logger, message, the fields, and the traceback if there is one."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class ServerLogger(Logger):  # type: ignore[misc]
    """Passes what gunicorn logs to the handlers of everything else."""

    def setup(self, cfg: Any) -> None:
        """Take over the settings of gunicorn, but not its handler and format."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def exception(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log an error with its traceback; a client that was too slow for the socket's timeout is none."""
        if isinstance(sys.exception(), BlockingIOError):
            self.debug("a client was too slow: %s", msg)
        else:
            super().exception(msg, *args, **options)


def configure(options: Options) -> None:
    """Send everything to standard error in the format that is set: our own lines from INFO on, others' warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if options.log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("pilotlight").setLevel(logging.INFO)


def write(level: int, message: str, fields: Mapping[str, Any]) -> None:
    """Log one line about a request."""
    if requests.isEnabledFor(level):
        requests.log(level, message, extra={_FIELDS: fields})


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, _FIELDS, {}))
    if "request_id" not in fields and has_request_context() and (request_id := g.get("request_id")):
        fields["request_id"] = request_id  # so that an error's traceback is found from the answer that says it
    return fields


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
