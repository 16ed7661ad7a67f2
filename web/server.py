"""Serves the application with gunicorn: `python -m web.server`, with settings from the environment."""

import json
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.http import errors as http_errors
from gunicorn.workers.gthread import ThreadWorker

from rag.errors import RagError
from rag.settings import load
from web.app import SECURITY_HEADERS
from web.problems import MEDIA_TYPE, problem

THREADS = 32  # a worker; queries that wait in them go through the model together
BACKLOG = 1024
WORKER_TIMEOUT_S = 120  # the first start may compile a package, which can hold the interpreter for a while
GRACE_S = 30
KEEP_ALIVE_S = 15
MAX_REQUEST_LINE = 8190  # bytes, the most gunicorn takes

FRAMING_PROBLEMS = {
    http_errors.LimitRequestLine: (
        414,
        f"The address is longer than {MAX_REQUEST_LINE} bytes; send long queries by POST.",
    ),
    http_errors.LimitRequestHeaders: (431, "The request has too many headers, or one that is too long."),
    http_errors.UnsupportedTransferCoding: (501, "Of transfer codings only chunked is understood."),
    http_errors.ExpectationFailed: (417, "The Expect header asks for something this server does not do."),
}

log = logging.getLogger("pilotlight")


class Address(Protocol):
    """The settings that say where and how wide to serve."""

    @property
    def host(self) -> str:
        """Name or address to listen on."""

    @property
    def port(self) -> int:
        """TCP port."""

    @property
    def workers(self) -> int:
        """Number of worker processes; 0, which whoever starts the server should have resolved, counts as 1."""


class Worker(ThreadWorker):  # type: ignore[misc]
    """Answers requests that never reach the application, as they are not HTTP, with a problem too."""

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Send the problem and let gunicorn close the connection."""
        if not isinstance(exc, http_errors.ParseException):
            self.log.error("Error handling request", exc_info=exc)
            status, detail = 500, "The server failed on this request."
        else:
            status, detail = FRAMING_PROBLEMS.get(type(exc), (400, "The request is not valid HTTP."))
        body = json.dumps(problem(status, detail)).encode()
        head = [f"HTTP/1.1 {status} {problem(status, detail)['title']}", "Connection: close"]
        head += [f"Content-Type: {MEDIA_TYPE}", f"Content-Length: {len(body)}", "Cache-Control: no-store"]
        head += [f"{name}: {value}" for name, value in SECURITY_HEADERS.items()]
        try:
            client.sendall("\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body)
        except OSError as error:
            self.log.debug("could not send status %s: %s", status, error)


class Server(BaseApplication):  # type: ignore[misc]
    """A gunicorn that serves what `factory` returns; the factory runs in each worker, after the fork."""

    def __init__(self, factory: Callable[[], Flask], options: dict[str, object]) -> None:
        self.factory = factory
        self.options = options
        super().__init__()

    def load_config(self) -> None:
        """Hand the options to gunicorn."""
        for name, value in self.options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Build the application."""
        return self.factory()


def serve(factory: Callable[[], Flask], address: Address) -> NoReturn:
    """Serve until SIGTERM or SIGINT. Exits with 0 after a graceful stop, 2 if the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        # Python appends the address, which the line already names
        reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        sys.exit(_complaint(f"cannot listen on {address.host} port {address.port}: {reason}"))
    shown = f"[{address.host}]" if family == socket.AF_INET6 else address.host
    url = f"http://{shown}:{listener.getsockname()[1]}/"
    Server(
        factory,
        {
            # bound here, because gunicorn retries a taken port for seconds and then exits with 1
            "bind": f"fd://{listener.detach()}",
            "workers": max(1, address.workers),
            "worker_class": Worker,
            "threads": THREADS,
            "timeout": WORKER_TIMEOUT_S,
            "graceful_timeout": GRACE_S,
            "keepalive": KEEP_ALIVE_S,
            "limit_request_line": MAX_REQUEST_LINE,
            "loglevel": "warning",
            "proc_name": "pilotlight",
            "control_socket_disable": True,  # nothing here uses it, and it would write into the home folder
            "when_ready": lambda server: log.info("listening on %s", url),
            "worker_exit": _close_retriever,
        },
    ).run()
    raise SystemExit  # gunicorn exits by itself; this tells the type checker


def main() -> NoReturn:
    """Serve with settings from the environment. Exits with 2 and one line for an unusable setting."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    log.setLevel(logging.INFO)
    try:
        settings = load()
    except RagError as error:
        sys.exit(_complaint(str(error)))
    serve(_application, settings)


def _application() -> Flask:
    # here, so that only workers load torch: its threads would not survive the fork
    from web.wsgi import application

    return application()


def _close_retriever(server: object, worker: Any) -> None:
    app = worker.app.callable
    if app is not None:
        app.extensions["retriever"].close()


def _complaint(message: str) -> int:
    print(f"pilotlight: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
