"""The connection to a Ray cluster, for as long as a build needs it."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from indexer.errors import ClusterError

_SECONDS = 5.0  # for an address to answer


@contextmanager
def ray_session(address: str) -> Iterator[None]:
    """Connect to a cluster, and end what was started here when the block ends, by SIGTERM too.

    The address is HOST:PORT or `auto`, of a cluster that this machine is a node of, or `local` to start one here, as
    `auto` does too where there is none. Raises ClusterError if Ray is not installed, or does not answer.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or address
    if address not in ("auto", "local"):
        _probe(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # what is built here is nobody's business
    try:
        import ray
        from ray.exceptions import RayError
    except ModuleNotFoundError as error:
        raise ClusterError("building on a cluster needs the extra ray: pip install 'pilotlight[ray]'") from error
    before = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        try:
            try:
                ray.init(address=address, **options, **({"include_dashboard": False} if address == "local" else {}))
            except ConnectionError:
                if address != "auto":
                    raise
                ray.init(address="local", include_dashboard=False, **options)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ClusterError(f"cannot use the Ray cluster {address}: {reason}") from error
        _on_sigterm(_interrupt)
        yield
    finally:
        ray.shutdown()
        _on_sigterm(before)


def _probe(address: str) -> None:
    """Raise ClusterError unless somebody answers there, and have Ray not wait long for them to be a cluster."""
    if address.startswith("ray://"):
        raise ClusterError(
            f"{address} is an address for Ray's client, which cannot be used: run this on a node of the cluster, with "
            "--ray auto or --ray HOST:PORT"
        )
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 65_536):
        raise ClusterError(f"--ray must be auto, local or HOST:PORT, such as 10.0.0.1:6379, not {address[:80]!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): see that `ray start --head` runs there"
        ) from error
    # who listens there may be somebody else: wait for seconds, and ask once, instead of ten minutes
    os.environ.setdefault("RAY_py_gcs_connect_timeout_s", "5")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _on_sigterm(handler: Any) -> None:
    """Set the handler of SIGTERM: that of Ray ends the process without a message."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
