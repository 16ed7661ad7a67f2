"""Run the server with gunicorn: `python -m web.server`, with settings from the environment.

Run it behind a reverse proxy, which handles slow and hostile clients. `scripts/deploy` has two configurations.
"""

import gc
import logging
import multiprocessing
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import TConn, ThreadWorker

from rag.access import check_exposure, is_loopback
from rag.errors import RagError
from rag.settings import Settings, load
from web import logs
from web.dispatch import LONG_THREADS, SEARCH_THREADS, Dispatcher
from web.guards.access import parse_origins
from web.guards.limits import SHARED_FOLDER
from web.openapi import long_paths
from web.problems import raw_response

CLIENT_TIMEOUT_S = 30
MAX_ACCEPTS = 8
LINGER_S = 0.5
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
OPTIONS = {
    "worker_connections": 2000,
    "timeout": 120,
    "graceful_timeout": 30,
    "keepalive": 65,  # seconds; longer than in nginx, so that nginx closes idle connections first
    "forwarder_headers": "",  # these headers would let clients change the path that a proxy has checked
    "loglevel": "warning",
    "logger_class": logs.ServerLogger,
    "proc_name": "pilotlight",
    "control_socket_disable": True,  # gunicorn would create an unused socket in the home folder
}
READY = multiprocessing.Event()
log = logging.getLogger("pilotlight")


class Worker(ThreadWorker):  # type: ignore[misc]
    """A gunicorn worker that answers invalid requests with problem details, and reports at /readyz when it stops."""

    settings: Settings

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._closing: dict[TConn, float] = {}
        self._next_count = 0.0

    def get_thread_pool(self) -> Dispatcher:
        """Return the dispatcher, which replaces gunicorn's thread pool."""
        return Dispatcher(self.settings.deadline, self.settings.proxies)

    def init_signals(self) -> None:
        """Set the signal handlers. Then unblock the stop signals, which `serve` blocks during a fork."""
        super().init_signals()
        _unblock_stop_signals()

    def load_wsgi(self) -> None:
        """Load the application, and pass its long routes and metrics to the dispatcher."""
        super().load_wsgi()
        self.tpool.connect(long_paths(self.wsgi), self.wsgi.extensions["metrics"].note)

    def accept(self, listener: socket.socket) -> None:
        """Accept connections, and poll them for their first requests.

        If only one connection is pending, a worker with many connections pauses, so that another worker accepts it.
        """
        waiting = _backlog(listener)
        if waiting <= 1:
            time.sleep(min(self.nr_conns, 20) * 0.0001)
        for _ in range(min(max(waiting, 1), MAX_ACCEPTS)):
            try:
                client, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            self.nr_conns += 1
            connection = TConn(self.cfg, client, address, listener.getsockname())
            connection.timeout = time.monotonic() + CLIENT_TIMEOUT_S
            self.pending_conns.append(connection)
            self.poller.register(client, selectors.EVENT_READ, partial(self.on_pending_socket_readable, connection))

    def notify(self) -> None:
        """Report to gunicorn that the worker is alive, and write metrics. Queues are measured once per second."""
        super().notify()
        counters = self.wsgi.extensions["metrics"]
        if time.monotonic() >= self._next_count:
            self._next_count = time.monotonic() + 1
            for kind, count in self.tpool.waiting().items():
                counters.note("http_requests_waiting", kind, value=count)
        counters.flush()
        if self.wsgi.extensions["retriever"].ready:
            READY.set()

    def finish_request(self, conn: TConn, fs: "Future[Any]") -> None:
        """Poll a connection for its next request. If it should be closed, let the client close it first."""
        if not fs.cancelled() and fs.exception() is None and fs.result():
            super().finish_request(conn, fs)
            return
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._drain, conn))
        except (OSError, ValueError):
            self.nr_conns -= 1
            conn.close()
        else:
            self._closing[conn] = time.monotonic() + LINGER_S

    def _drain(self, conn: TConn, client: socket.socket) -> None:
        """Discard bytes that the client sends. When the client has closed the connection, close it here too."""
        try:
            is_open = bool(client.recv(65_536))
        except OSError:
            is_open = False
        if not is_open:
            self._end(conn)

    def _end(self, conn: TConn) -> None:
        del self._closing[conn]
        self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Close connections that have waited too long for a request, or for the client to close them."""
        super().murder_pending()
        now = time.monotonic()
        for conn in [conn for conn, end in self._closing.items() if end <= now]:
            self._end(conn)

    def handle_exit(self, sig: int, frame: object) -> None:
        """Begin to stop gracefully, and report this at /readyz."""
        if self.alive and getattr(self, "wsgi", None):
            self.wsgi.extensions["draining"].set()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: object) -> None:
        """Stop immediately. A worker that is starting stops after its start, which must not be interrupted."""
        if self.booted:
            super().handle_quit(sig, frame)
        self.alive = False

    def handle_error(self, req: object, client: socket.socket, addr: object, exc: BaseException) -> None:
        """Respond with problem details to an invalid HTTP request, or to an error outside of a view function."""
        if not isinstance(exc, ParseException):
            self.log.error("Error handling request", exc_info=exc)
        with suppress(OSError):
            client.sendall(raw_response(exc))


def _backlog(listener: socket.socket) -> int:
    """Return the number of pending connections. On Linux, it is the field `tcpi_unacked` of a listening socket."""
    return int(struct.unpack_from("I", listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28), 24)[0])


_block_stop_signals = partial(signal.pthread_sigmask, signal.SIG_BLOCK, _STOP_SIGNALS)
_unblock_stop_signals = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _STOP_SIGNALS)


class Server(BaseApplication):  # type: ignore[misc]
    """A gunicorn server. After the fork, each worker calls `load` to create its application."""

    def __init__(self, load: Callable[[], Flask], options: dict[str, Any]) -> None:
        self.load, self.load_config = load, lambda: [self.cfg.set(name, value) for name, value in options.items()]
        super().__init__()


def serve(settings: Settings, factory: Callable[[], Flask] | None = None) -> NoReturn:
    """Serve until SIGTERM or SIGINT. Exits with status 0 after a graceful stop, or 2 if the address cannot be used."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=1024)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]
        _refuse(f"cannot listen on {settings.host} port {settings.port}: {reason}")
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        listener.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", CLIENT_TIMEOUT_S, 0))
    folder = os.environ[SHARED_FOLDER] = tempfile.mkdtemp(prefix="pilotlight-server-")
    from prometheus_client.multiprocess import mark_process_dead

    from web import app, metrics  # imported here, because they read SHARED_FOLDER

    sys.setswitchinterval(0.001)  # seconds; the default, 5 ms, would delay new requests
    gc.freeze()  # garbage collection would write to memory that the workers share, and thereby copy it
    gc.enable()
    url = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{listener.getsockname()[1]}/"
    systemd = os.environ.pop("NOTIFY_SOCKET", "")  # otherwise gunicorn would report readiness too early
    options = OPTIONS | {
        "bind": f"fd://{listener.detach()}",  # given a port in use, gunicorn would retry for seconds
        "workers": max(1, settings.workers),
        "worker_class": Worker,
        "threads": SEARCH_THREADS + LONG_THREADS + 1,
        "when_ready": lambda server: logs.announce(url, systemd, READY.wait),
        "worker_exit": lambda server, worker: app.close_app(worker.app.callable),
        "pre_fork": metrics.number_worker,
        "child_exit": lambda server, worker: mark_process_dead(worker.number),  # type: ignore[no-untyped-call]
        "on_exit": lambda server: shutil.rmtree(folder, ignore_errors=True),
    }
    Worker.settings = settings
    # Block stop signals during a fork. The new worker would lose them, because it still has its parent's handlers.
    os.register_at_fork(before=_block_stop_signals, after_in_parent=_unblock_stop_signals)
    sys.exit(Server(factory or app.application, options).run())


def _refuse(message: str) -> NoReturn:
    print(f"pilotlight: {message}", file=sys.stderr)
    sys.exit(2)


def main() -> NoReturn:
    """Serve with settings from the environment. If one is invalid, prints one line and exits with status 2."""
    try:
        settings = load()
        logs.check_tracing()
        parse_origins(settings.cors_origins)
        check_exposure(settings)
    except RagError as error:
        _refuse(str(error))
    logs.configure(settings.log_format)
    if not is_loopback(settings.host) and not settings.proxies:
        message = "without a reverse proxy (--proxies 0), slow or numerous clients can occupy all threads: serve %s "
        log.warning(message + "to a trusted network only", settings.host)
    serve(settings)


if __name__ == "__main__":
    main()
