"""Serves the application with gunicorn: `python -m web.server`, with settings from the environment."""

import gc
import logging
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from flask import Flask
from gunicorn.app.base import BaseApplication

from rag.errors import RagError
from rag.serving.api_keys import check_exposure
from rag.settings import load
from web.guards.cors import parse_origins
from web.observe import logs, traces
from web.observe.worker_folder import FOLDER_VARIABLE, make_folder
from web.server.listeners import raise_limit
from web.server.refusals import MAX_REQUEST_LINE
from web.server.systemd import ReadySignal
from web.server.worker import Worker

BACKLOG = 1024
WORKER_TIMEOUT_S = 120  # the first start may compile a package, which can hold the interpreter for a while
GRACE_S = 30
SEND_BUFFER_BYTES = 256 * 1024  # that the kernel takes of an answer, so that a slow reader frees its thread
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

    @property
    def queue(self) -> int:
        """Requests that one worker has under way at most."""

    @property
    def proxies(self) -> int:
        """Reverse proxies in front of the server, whose addresses are those of many."""


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


def serve(factory: Callable[[], Flask], address: Address, prepare: Callable[[], None] = lambda: None) -> NoReturn:
    """Serve until SIGTERM or SIGINT. Exits with 0 after a graceful stop, 2 if the address cannot be had.

    `prepare` is called before the workers are forked, which share what it leaves in memory.
    """
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listener = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        # Python appends the address, which the line already names
        reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        sys.exit(_complaint(f"cannot listen on {address.host} port {address.port}: {reason}"))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    folder = make_folder()  # not a context manager, as workers leave this function too
    os.environ[FOLDER_VARIABLE] = str(folder.path)
    Worker.queue, Worker.proxies = address.queue, address.proxies
    Worker.ready_signal = ready_signal = ReadySignal()
    raise_limit()
    prepare()
    gc.freeze()  # or the first collection of a worker would write to, and so copy, all that it shares
    gc.enable()
    shown = f"[{address.host}]" if family == socket.AF_INET6 else address.host
    url = f"http://{shown}:{listener.getsockname()[1]}/"
    Server(
        factory,
        {
            # bound here, because gunicorn retries a taken port for seconds and then exits with 1
            "bind": f"fd://{listener.detach()}",
            "workers": max(1, address.workers),
            "worker_class": Worker,
            "timeout": WORKER_TIMEOUT_S,
            "graceful_timeout": GRACE_S,
            "sendfile": False,  # answers go through a SendBuffer, which is no file
            "limit_request_line": MAX_REQUEST_LINE,
            "forwarder_headers": "",  # or a client could have an address read as another, past a proxy's rules
            "loglevel": "warning",
            "logger_class": logs.ServerLogger,
            "proc_name": "pilotlight",
            "control_socket_disable": True,  # nothing here uses it, and it would write into the home folder
            "when_ready": lambda server: _listening(url, ready_signal),
            "worker_exit": _close_retriever,
            "child_exit": lambda server, worker: Worker.balance.leave(worker.age),
            "on_exit": lambda server: folder.remove(),
        },
    ).run()
    raise SystemExit  # gunicorn exits by itself; this tells the type checker


def _listening(url: str, ready_signal: ReadySignal) -> None:
    log.info("listening on %s", url)
    ready_signal.relay()


def main() -> NoReturn:
    """Serve with settings from the environment. Exits with 2 and one line for an unusable setting."""
    try:
        settings = load()
        traces.check()
        parse_origins(settings.cors_origins)
        check_exposure(settings)
    except RagError as error:
        sys.exit(_complaint(str(error)))
    logs.configure(settings)
    serve(_application, settings, _import_application)


def _application() -> Flask:
    from web.wsgi import application

    return application()


def _import_application() -> None:
    """Import and compile what the workers run, and start none of it: threads of libraries would not survive the fork.

    The Prometheus client looks for the folder of the workers while it is imported, so it is not done before.
    """
    import web.wsgi  # noqa: F401
    from web import compiled_templates

    compiled_templates.compile_busy()


def _close_retriever(server: object, worker: Any) -> None:
    app = worker.app.callable
    if app is not None:
        app.extensions["retriever"].close()
        app.extensions["telemetry"].close()
        if recorder := app.extensions["insights"]:
            recorder.close()


def _complaint(message: str) -> int:
    print(f"pilotlight: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
