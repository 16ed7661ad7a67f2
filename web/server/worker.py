"""A gunicorn worker that runs our loop: gunicorn keeps the processes, and reads and writes HTTP in our threads.

What it is built on is what gunicorn documents for workers of one's own; a test holds every name that is used.
"""

import os
import signal
import sys
import time

from gunicorn.workers.base import Worker as BaseWorker

from web.server.admission import Admission
from web.server.event_loop import RETRY_AFTER_S, EventLoop
from web.server.load_balance import LoadBalance
from web.server.refusals import BUSY, busy_page, refusal
from web.server.systemd import ReadySignal

ORPHAN_S = 5  # that a worker without a server may take to end, after its time to answer what is under way
SWITCH_S = 0.001  # that the loop waits at most for a thread that computes, after each call of the kernel's
_NOTE_S = 1.0  # between two signs of life


class Worker(BaseWorker):  # type: ignore[misc]
    """One process that serves."""

    queue = 64  # requests under way at most; `server.serve` sets it
    proxies = 0  # in front of it, likewise
    balance = LoadBalance()
    ready_signal: ReadySignal | None = None  # until the worker has sent it
    _noted = 0.0

    def load_wsgi(self) -> None:
        """Load the application, and make the answers of a full queue: there is no time for that later."""
        super().load_wsgi()
        busy = refusal(503, BUSY, retry_after=RETRY_AFTER_S), busy_page(self.wsgi, retry_after=RETRY_AFTER_S)
        self._loop = EventLoop(
            self.wsgi,
            self.cfg,
            Admission(self.wsgi.extensions["access"], self.queue),
            self.wsgi.extensions["metrics"].refuse,
            busy,
            shares_addresses=bool(self.proxies),
        )

    def handle_exit(self, sig: int, frame: object) -> None:
        """Begin to stop: say so, and finish what is under way."""
        super().handle_exit(sig, frame)
        if hasattr(self, "_loop"):  # it may still be loading
            self.wsgi.extensions["draining"].set()
            self._loop.stopping = True
            self._loop.wake()

    def handle_quit(self, sig: int, frame: object) -> None:
        """Stop at once."""
        if hasattr(self, "_loop"):
            self._loop.close()
        super().handle_quit(sig, frame)

    def run(self) -> None:
        """Serve until told to stop, or the server is gone; then answer what is under way, if it does not take long."""
        sys.setswitchinterval(SWITCH_S)
        self._loop.open(self.sockets, self.balance, self.age)
        while self.alive:
            self._note()
            self._loop.turn(_NOTE_S)
            if self.alive and self.ppid != os.getppid():
                self.log.warning("the server has died: this worker stops")
                signal.alarm(self.cfg.graceful_timeout + ORPHAN_S)  # nobody is left who would end one that hangs
                self.handle_exit(signal.SIGTERM, None)
        self._loop.stop()
        end = time.monotonic() + self.cfg.graceful_timeout
        while len(self._loop) and time.monotonic() < end:
            self._note()
            self._loop.turn(_NOTE_S)
        self._loop.close()

    def _note(self) -> None:
        """Give a sign of life, if it is time: it is a file's time, and turns of the loop are many."""
        now = time.monotonic()
        if now >= self._noted + _NOTE_S:
            self._noted = now
            self.notify()
            if self.ready_signal and self.wsgi.extensions["retriever"].ready:
                self.ready_signal.send()
                self.ready_signal = None
