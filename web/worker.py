"""A gunicorn worker whose threads only see requests that are complete, and no more of them than it can answer.

The event loop collects each request first, so a client that sends slowly, or nothing, holds a connection and no thread.
What is urgent has threads of its own. When as many requests as `queue` are under way, further ones are answered 503 by
the loop itself: saying no costs a fraction of what a search does.
"""

import logging
import selectors
import signal
import socket
import struct
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gunicorn.http import errors as http_errors
from gunicorn.workers.gthread import TConn, ThreadWorker

from web.balance import Balance
from web.intake import Intake, Verdict
from web.limits import arrival
from web.refusals import BUSY, FRAMING_PROBLEMS, MALFORMED, REFUSALS, asks_for_page, busy_page, refusal

URGENT = tuple(  # probes, and what a page is made of, that of a full queue too; none takes long
    f"{method} {path}".encode()
    for method in ("GET", "HEAD")
    for path in ("/livez ", "/livez?", "/readyz ", "/readyz?", "/metrics ", "/metrics?", "/static/")
)
URGENT_THREADS = 2
CHUNK_BYTES = 64 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024  # of requests that are not complete, in one worker
HEAD_S = 10.0  # that a client may take to send the head of a request
REQUEST_S = 60.0  # and all of it
KEEP_ALIVE_S = 15.0
STOPPING_S = 1.0  # that an idle connection is kept when the server stops: a request may be on its way
LINGER_S = 2.0  # for a client to read an answer, while it is still sending
STALL_S = 10  # that an answer may wait for a client to read some of it
RETRY_AFTER_S = 1
ORPHAN_S = 5  # that a worker without a server may take to end, after its time to answer what is under way
_SWEEP_S = 0.5
ASIDE_S = 0.02  # that a worker leaves new connections to one that has fewer
ACCEPTED = 16  # at once, before requests that have come get their turn


class Worker(ThreadWorker):  # type: ignore[misc]
    """Collects requests in the event loop, hands them to threads, and keeps or closes their connections after."""

    queue = 64  # requests under way at most; `server.serve` sets it
    balance = Balance()

    def init_process(self) -> None:
        """Prepare what the loop needs, load the application and run."""
        self._intakes: dict[TConn, Intake] = {}  # of connections that the loop waits for
        self._lingering: dict[TConn, float] = {}  # those that were answered for good, and until when
        self._held = 0  # bytes in `_intakes`
        self._under_way = 0
        self._swept = 0.0
        self._stopped = 0.0  # when it was told to stop
        self._aside = 0.0  # until when it leaves new connections to others, 0 if it does not
        self._has_waited = False  # for another to take the next one
        self._urgent_pool = ThreadPoolExecutor(URGENT_THREADS, thread_name_prefix="urgent")
        self.log.error_log.addFilter(_is_not_a_stall)
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application, and make what a full queue is answered with: there is no time for that later."""
        super().load_wsgi()
        page = busy_page(self.wsgi, retry_after=RETRY_AFTER_S)
        self._busy = refusal(503, BUSY, retry_after=RETRY_AFTER_S), page

    def handle_exit(self, sig: int, frame: object) -> None:
        """Begin to stop: say so, and finish what is under way."""
        self._stopped = time.monotonic()
        application = getattr(self, "wsgi", None)
        if application is not None:
            application.extensions["draining"].set()
        super().handle_exit(sig, frame)

    def is_parent_alive(self) -> bool:
        """Whether the server that began this worker lives; without it, stop as if it had said so."""
        if super().is_parent_alive():
            return True
        self.log.warning("the server has died: this worker stops")
        signal.alarm(self.cfg.graceful_timeout + ORPHAN_S)  # nobody is left who would end a worker that hangs
        self.handle_exit(signal.SIGTERM, None)
        return False

    def set_accept_enabled(self, enabled: bool) -> None:
        """Accept connections or not; at the end, first those that the kernel has already accepted for us."""
        if self._aside:
            self._return()
        stops = not enabled and not self.alive and self._accepting
        if stops:
            for listener in self.sockets:
                while self._accept_one(listener):
                    pass
        super().set_accept_enabled(enabled)
        self._count_connections(0)
        if stops:
            for listener in self.sockets:
                listener.close()

    def accept(self, listener: socket.socket) -> None:
        """Take new connections, unless another worker has fewer and is quick to."""
        for _ in range(ACCEPTED):
            if self.balance.has_more(self.nr_conns) and not self._has_waited:
                self._aside = time.monotonic() + ASIDE_S
                for each in self.sockets:  # which stay readable, and would be told again and again
                    self.poller.unregister(each)
                return
            self._has_waited = False
            if not self._accept_one(listener):
                return

    def _return(self) -> None:
        self._aside = 0.0
        self._has_waited = True
        for listener in self.sockets:
            self.poller.register(listener, selectors.EVENT_READ, self.accept)

    def _accept_one(self, listener: socket.socket) -> bool:
        try:
            client, address = listener.accept()
        except OSError as error:  # nobody there, gone again, or no file left for one more: that is no reason to end
            if not isinstance(error, BlockingIOError | ConnectionAbortedError):
                self.log.warning("cannot accept a connection: %s", error)
            return False
        self._count_connections(1)
        conn = TConn(self.cfg, client, address, listener.getsockname())
        conn.init()
        client.setblocking(False)
        stall = struct.pack("ll", STALL_S, 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, stall)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, stall)
        self._wait(conn)
        self._receive(client, conn)  # it is usually there
        return True

    def enqueue_req(self, conn: TConn) -> None:
        """Take a connection back from a thread: what else it has read may be another request."""
        self._wait(conn, conn.parser.unreader.take_buffered())

    def _wait(self, conn: TConn, data: bytes = b"") -> None:
        """Wait for a request, of which these bytes are there."""
        conn.sock.setblocking(False)
        self._intakes[conn] = Intake()
        self.poller.register(conn.sock, selectors.EVENT_READ, lambda client: self._receive(client, conn))
        if data:
            self._feed(conn, data)

    def _receive(self, client: socket.socket, conn: TConn) -> None:
        try:
            data = client.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(conn)
        elif conn in self._intakes:
            self._feed(conn, data)

    def _feed(self, conn: TConn, data: bytes) -> None:
        intake = self._intakes[conn]
        if intake.is_idle:
            intake.began = time.monotonic()
        verdict = intake.feed(data)
        self._held += len(data)
        if verdict is Verdict.COMPLETE:
            if self._under_way >= self.queue and not intake.starts_with(URGENT):
                self._turn_away(conn, intake)
            else:
                self._dispatch(conn, self._release(conn))
        elif verdict is not Verdict.PARTIAL:
            self._refuse(conn, *REFUSALS[verdict])
        elif self._held > MAX_HELD_BYTES:
            self._refuse(conn, 503, BUSY, "memory")
        elif intake.continues:
            intake.continues = False
            self._send(conn, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _release(self, conn: TConn) -> Intake:
        """Stop waiting for a connection."""
        self.poller.unregister(conn.sock)
        intake = self._intakes.pop(conn)
        self._held -= len(intake.buffer)
        return intake

    def _dispatch(self, conn: TConn, intake: Intake) -> None:
        """Have a request answered."""
        is_urgent = intake.starts_with(URGENT)
        conn.parser.unreader.unread(bytes(intake.buffer))
        self._under_way += not is_urgent
        conn.arrived = time.monotonic()
        future = (self._urgent_pool if is_urgent else self.tpool).submit(self.handle, conn)
        future.add_done_callback(lambda done: self.method_queue.defer(self._finish, conn, done, is_urgent))

    def handle(self, conn: TConn) -> bool:
        """Answer a request, in a thread; return whether the connection can be kept."""
        arrival.set(conn.arrived)
        return bool(super().handle(conn))

    def _finish(self, conn: TConn, done: "Future[bool]", is_urgent: bool) -> None:
        """Take a connection back from its thread, in the loop."""
        self._under_way -= not is_urgent
        if done.cancelled() or done.exception() is not None or conn.sock.fileno() < 0:
            self._close(conn)
        elif done.result():
            self.enqueue_req(conn)
        else:
            self._linger(conn)

    def _turn_away(self, conn: TConn, intake: Intake) -> None:
        """Refuse a request that is complete, and wait for the client's next one."""
        if not self.alive or intake.is_last():
            self._refuse(conn, 503, BUSY, "queue")
            return
        self._count("queue")
        self._held -= len(intake.buffer)
        self._intakes[conn] = Intake()
        self._send(conn, self._busy[asks_for_page(intake.head)])

    def _refuse(self, conn: TConn, status: int, detail: str, reason: str) -> None:
        """Answer a request that has not come in full, and take no more of it."""
        self._count(reason)
        self._release(conn)
        try:
            conn.sock.send(refusal(status, detail, closes=True, retry_after=RETRY_AFTER_S if status == 503 else None))
        except OSError:
            self._close(conn)
        else:
            self._linger(conn)

    def _send(self, conn: TConn, answer: bytes) -> bool:
        """Send something short at once; whoever does not even read that is dropped."""
        try:
            if conn.sock.send(answer) == len(answer):
                return True
        except OSError:
            self.log.debug("a client left, or does not read")
        self._drop(conn)
        return False

    def _linger(self, conn: TConn) -> None:
        """Close a connection once its client has, or soon: at once, the kernel might take back the answer."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            self.poller.register(conn.sock, selectors.EVENT_READ, lambda client: self._receive(client, conn))
        except OSError:
            self._close(conn)
        else:
            self._lingering[conn] = time.monotonic() + LINGER_S

    def _drop(self, conn: TConn) -> None:
        """Forget a connection that the loop waits for."""
        if self._lingering.pop(conn, None) is not None:
            self.poller.unregister(conn.sock)
        else:
            self._release(conn)
        self._close(conn)

    def _close(self, conn: TConn) -> None:
        self._count_connections(-1)
        conn.close()

    def _count_connections(self, more: int) -> None:
        self.nr_conns += more
        if self._accepting:
            self.balance.note(self.age, self.nr_conns)
        else:
            self.balance.leave(self.age)

    def murder_pending(self) -> None:
        """Close what has been waited for in vain; gunicorn calls this again and again."""
        now = time.monotonic()
        if now < self._swept + _SWEEP_S:
            return
        self._swept = now
        for conn in [conn for conn, until in self._lingering.items() if until <= now]:
            self._drop(conn)
        for conn, intake in list(self._intakes.items()):
            waited = now - intake.began
            if intake.is_idle:
                if waited >= KEEP_ALIVE_S or (not self.alive and now - max(self._stopped, intake.began) >= STOPPING_S):
                    self._drop(conn)
            elif waited >= (REQUEST_S if intake.head_end else HEAD_S):
                self._refuse(conn, 408, "The request did not come in time.", "slow")

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for something to happen, but not past the next look at the clock."""
        if self._intakes or self._lingering:
            timeout = min(timeout, _SWEEP_S)
        if self._aside:
            timeout = min(timeout, max(0.0, self._aside - time.monotonic()))
        super().wait_for_and_dispatch_events(timeout)
        if self._aside and time.monotonic() >= self._aside:
            self._return()

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer what is not HTTP with a problem too."""
        if not isinstance(exc, http_errors.ParseException):
            self.log.error("Error handling request", exc_info=exc)
            status, detail = 500, "The server failed on this request."
        else:
            status, detail = FRAMING_PROBLEMS.get(type(exc), (400, MALFORMED))
        try:
            client.sendall(refusal(status, detail, closes=True))
        except OSError as error:
            self.log.debug("could not send status %s: %s", status, error)

    def _count(self, reason: str) -> None:
        self.wsgi.extensions["metrics"].refuse(reason)


def _is_not_a_stall(record: logging.LogRecord) -> bool:
    """Whether a line of gunicorn's log is about anything else than a client that stopped reading."""
    return not (record.exc_info and isinstance(record.exc_info[1], BlockingIOError))
