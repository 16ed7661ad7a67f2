"""Tells systemd that the server is ready, once a worker answers searches: what `/readyz` says, not what listens.

systemd takes the message from the main process alone, so a ready worker tells that one through a pipe.
"""

import os
import threading

from gunicorn.systemd import sd_notify

_ADDRESS = "NOTIFY_SOCKET"


class ReadySignal:
    """The pipe from the workers to the main process; does nothing where no systemd waits."""

    def __init__(self) -> None:
        """Take the socket's address out of the environment: gunicorn would tell as soon as it listens."""
        self._address = os.environ.pop(_ADDRESS, None)
        self._read, self._write = os.pipe() if self._address else (-1, -1)

    def relay(self) -> None:
        """Begin to wait in a thread of the main process, and tell systemd when the first worker is ready."""
        if self._address:
            threading.Thread(target=self._wait, name="ready-signal", daemon=True).start()

    def send(self) -> None:
        """Tell the main process that this worker is ready."""
        if self._address:
            os.write(self._write, b"1")

    def _wait(self) -> None:
        os.read(self._read, 1)
        os.environ[_ADDRESS] = str(self._address)
        sd_notify("READY=1\nSTATUS=Answers searches", _Silent(), unset_environment=True)


class _Silent:
    """A log that gunicorn can write to, as nothing here depends on the message."""

    def debug(self, *args: object, **options: object) -> None:
        """Drop a message."""
