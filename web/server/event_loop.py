"""The loop that waits for clients: one thread collects requests and sends answers, others only make them.

A client that sends slowly, or reads slowly, or does neither, holds a connection and no thread.
"""

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from web.guards.access import BARRED
from web.server.admission import Admission, Kind
from web.server.connections import Connection, Connections, State
from web.server.exchange import Exchange
from web.server.listeners import Listeners, most_connections
from web.server.load_balance import LoadBalance
from web.server.pacer import Pacer
from web.server.receive_buffer import ReceiveBuffer, Verdict
from web.server.refusals import BUSY, REFUSALS, asks_for_page, refusal
from web.server.send_buffer import SendBuffer
from web.server.timeouts import TimeoutAction, due

CONNECTIONS = 1000  # of a worker
CHUNK_BYTES = 64 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024  # of requests that are not complete, in one worker
MAX_UNREAD_BYTES = 256 * 1024 * 1024  # of answers that are not read, in one worker
RETRY_AFTER_S = 1  # what clients that are turned away are told
_SWEEP_S = 0.5


class EventLoop:
    """The connections of one worker, from first byte to last."""

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        cfg: Any,
        admission: Admission,
        count: Callable[[str], None],
        busy: tuple[bytes, bytes],
        *,
        shares_addresses: bool,
    ) -> None:
        """Prepare to serve.

        Args:
            app: the WSGI application.
            cfg: gunicorn's configuration.
            admission: says who is taken, and has the threads.
            count: is told why a request was refused.
            busy: what a full queue answers to programs, and to browsers.
            shares_addresses: whether many clients come from one address, as they do behind a proxy.
        """
        self.stopping = False
        self._app, self._cfg, self._admission, self._count, self._busy = app, cfg, admission, count, busy
        most = most_connections(CONNECTIONS)
        self._connections = Connections(most, most if shares_addresses else most // 2)
        self._knows_addresses = not shares_addresses
        self._poller = selectors.DefaultSelector()
        self._done: deque[Callable[[], None]] = deque()  # what threads leave for the loop to do
        self._bell, self._rope = socket.socketpair()
        for end in (self._bell, self._rope):
            end.setblocking(False)
        self._poller.register(self._bell, selectors.EVENT_READ, self._answer_bell)
        self._pacer = Pacer()
        self._held = self._unread = 0
        self._swept = self._stopped = 0.0

    def __len__(self) -> int:
        return len(self._connections)

    def open(self, sockets: Sequence[socket.socket], balance: LoadBalance, worker: int) -> None:
        """Begin to accept connections."""
        self._listeners = Listeners(sockets, self._poller, self._take, self._relieve, balance, worker)
        self._listeners.open()

    def turn(self, timeout: float) -> None:
        """Wait for something to happen, so many seconds at most, and deal with it."""
        now = time.monotonic()
        if len(self._connections):
            timeout = min(timeout, _SWEEP_S)
        if due := self._listeners.due():
            timeout = min(timeout, max(0.0, due - now))
        for key, _ in self._poller.select(timeout):
            if isinstance(key.data, Connection):
                self._move(key.data)
            else:
                key.data()
        now = time.monotonic()
        self._listeners.resume(now)
        if now >= self._swept + _SWEEP_S:
            self._swept = now
            self._sweep(now)

    def wake(self) -> None:
        """End the wait of `turn`, from another thread or a signal."""
        with suppress(BlockingIOError):  # it rings already
            self._rope.send(b"!")

    def stop(self) -> None:
        """Accept no more connections; those there are go as they are answered."""
        self._stopped = time.monotonic()
        self._listeners.close()

    def close(self) -> None:
        """Leave everything as it is."""
        self._admission.close()
        self._pacer.close()
        self._poller.close()

    def _answer_bell(self) -> None:
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        for _ in range(len(self._done)):
            self._done.popleft()()

    def _take(self, client: socket.socket, peer: Any, here: Any) -> None:
        client.setblocking(False)
        conn = Connection(client, peer, here, SendBuffer(client))
        if surplus := self._connections.surplus(conn.address):
            self._close(surplus)
        self._connections.add(conn)
        self._listeners.note(len(self._connections))
        self._connections.enter(conn, State.READING)
        self._receive(conn)  # it is usually there
        if conn.state is State.READING:
            conn.watch(self._poller, selectors.EVENT_READ)

    def _relieve(self) -> bool:
        """Close the connection that is worth least; return whether there was one."""
        if conn := self._connections.least():
            self._close(conn)
        return conn is not None

    def _move(self, conn: Connection) -> None:
        if conn.state is State.SENDING:
            self._send(conn)
        elif conn.state is State.ANSWERING:  # its client has sent more, or left: that is for later
            conn.watch(self._poller, 0)
        elif conn.state is not State.CLOSED:  # by what happened to another in the same turn
            self._receive(conn)

    def _receive(self, conn: Connection) -> None:
        try:
            data = conn.sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(conn)
        elif conn.state is State.READING:
            self._feed(conn, data)

    def _feed(self, conn: Connection, data: bytes) -> None:
        received = conn.received
        if received.is_idle:
            received.began = time.monotonic()
        had_head = bool(received.head_end)
        verdict = received.feed(data)
        self._held += len(data)
        if verdict is Verdict.COMPLETE:
            self._admit(conn, self._admission.kind_of(received, conn.address), is_whole=True)
        elif verdict is not Verdict.PARTIAL:
            self._refuse(conn, *REFUSALS[verdict])
        elif (
            received.head_end
            and not had_head
            and (kind := self._admission.kind_of(received, conn.address)) is Kind.STRANGER
        ):
            self._admit(conn, kind, is_whole=False)  # its body changes nothing
        elif self._held > MAX_HELD_BYTES:
            most = max(self._connections.waiting(), key=lambda each: len(each.received.buffer))
            self._refuse(most, 503, BUSY, "memory")
        elif received.continues:
            received.continues = False
            self._say(conn, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _admit(self, conn: Connection, kind: Kind, *, is_whole: bool) -> None:
        """Have a request answered, or refuse it; one that is not whole is answered without its body."""
        received, lane = conn.received, self._admission.lanes[kind]
        if kind is Kind.STRANGER and self._knows_addresses and self._admission.is_barred(conn.address):
            self._refuse(conn, 429, BARRED, "rate")
        elif lane.is_full and (self.stopping or not is_whole or received.is_last() or kind is Kind.STRANGER):
            self._refuse(conn, 503, BUSY, "queue")
        elif lane.is_full:
            self._count("queue")
            self._held -= len(received.buffer)
            said = self._busy[asks_for_page(received.head)]
            conn.received = ReceiveBuffer()
            self._connections.enter(conn, State.READING)
            self._say(conn, said)
        else:
            self._release(conn)
            self._connections.enter(conn, State.ANSWERING)
            end = received.end if is_whole else received.head_end
            exchange = Exchange(bytes(received.buffer[:end]), time.monotonic(), conn.to_send, has_body=is_whole)
            conn.exchange, conn.rest, conn.received = exchange, bytes(received.buffer[end:]), ReceiveBuffer()
            last = self.stopping or not is_whole
            self._work(conn, kind, partial(exchange.begin, self._app, self._cfg, conn.peer, conn.here, last=last))

    def _work(self, conn: Connection, kind: Kind, step: Callable[[], None]) -> None:
        """Have a thread do something for a connection, and go on with that here."""

        def work() -> None:
            try:
                step()
            finally:
                self._leave(partial(self._finish, conn, kind))

        self._admission.lanes[kind].under_way += 1
        self._admission.lanes[kind].run(work)

    def _finish(self, conn: Connection, kind: Kind) -> None:
        """Take a connection back from its thread."""
        self._admission.lanes[kind].under_way -= 1
        if conn.exchange is not None and conn.exchange.due > time.monotonic():
            self._pacer.hold(conn.exchange.due, partial(self._leave, partial(self._send_first, conn)))
        else:
            self._send_first(conn)

    def _leave(self, what: Callable[[], None]) -> None:
        """Leave something for the loop to do, from another thread."""
        self._done.append(what)
        self.wake()

    def _send_first(self, conn: Connection) -> None:
        """Begin to send what a thread has left to send, or go on where it has sent all."""
        if conn.to_send.waiting:
            self._unread += conn.to_send.waiting
            self._connections.enter(conn, State.SENDING)
            conn.watch(self._poller, selectors.EVENT_WRITE)
            while self._unread > MAX_UNREAD_BYTES and (oldest := self._sending()):
                self._close(oldest)
        else:
            self._go_on(conn)

    def _sending(self) -> Connection | None:
        return next((each for each in self._connections.waiting() if each.state is State.SENDING), None)

    def _send(self, conn: Connection) -> None:
        """Send what the client takes, and go on with its answer once it has read enough of it."""
        before = conn.to_send.waiting
        try:
            conn.to_send.flush()
        except OSError:
            self._close(conn)
            return
        self._unread -= before - conn.to_send.waiting
        if not conn.to_send.waiting:
            conn.watch(self._poller, 0)  # it would be told again and again that there is room
            self._connections.enter(conn, State.ANSWERING)
            self._go_on(conn)

    def _go_on(self, conn: Connection) -> None:
        """Do what follows an answer that has been sent, as far as it is there."""
        exchange = conn.exchange
        if exchange is not None and not exchange.ended:
            self._work(conn, Kind.CALLER, exchange.run)
        elif exchange is not None and exchange.keeps:
            conn.exchange = None
            self._connections.enter(conn, State.READING)
            conn.watch(self._poller, selectors.EVENT_READ)
            if conn.rest:
                self._feed(conn, conn.rest)
        else:
            self._linger(conn)

    def _release(self, conn: Connection) -> None:
        """Count no more what a connection holds."""
        if conn.state is State.READING:
            self._held -= len(conn.received.buffer)
        if conn.state is State.SENDING:
            self._unread -= conn.to_send.waiting

    def _refuse(self, conn: Connection, status: int, detail: str, reason: str) -> None:
        """Answer a request that has not come in full, or whose sender is not to send more."""
        self._count(reason)
        self._release(conn)
        self._connections.enter(conn, State.ANSWERING)
        retry_after = RETRY_AFTER_S if status in (429, 503) else None
        conn.to_send.sendall(refusal(status, detail, closes=True, retry_after=retry_after))
        try:
            conn.to_send.flush()
        except OSError:
            self._close(conn)
        else:
            self._linger(conn)

    def _say(self, conn: Connection, answer: bytes) -> None:
        """Send something short at once; whoever does not even read that is dropped."""
        conn.to_send.sendall(answer)
        with suppress(OSError):
            conn.to_send.flush()
            if not conn.to_send.waiting:
                return
        conn.to_send.drop()
        self._close(conn)

    def _linger(self, conn: Connection) -> None:
        """Close a connection once its client has, or soon: at once, the kernel might take back the answer."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(conn)
        else:
            self._connections.enter(conn, State.LINGERING)
            conn.watch(self._poller, selectors.EVENT_READ)

    def _close(self, conn: Connection) -> None:
        self._release(conn)
        conn.watch(self._poller, 0)
        self._connections.remove(conn)
        conn.state = State.CLOSED
        self._listeners.note(len(self._connections))
        conn.sock.close()
        if conn.exchange is not None and not conn.exchange.ended:
            self._admission.lanes[Kind.PART].run(conn.exchange.give_up)

    def _sweep(self, now: float) -> None:
        """Close what has been waited for in vain."""
        for conn in self._connections.waiting():
            what = due(conn, now, self._stopped)
            if what is TimeoutAction.SAY_LATE:
                self._refuse(conn, 408, "The request timed out.", "slow")
            elif what is TimeoutAction.WAIT_AGAIN:
                self._connections.enter(conn, State.SENDING)
            elif what is not None:
                if what is TimeoutAction.GIVE_UP:
                    self._count("slow")
                self._close(conn)
