"""Ports for servers that tests start."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a free port for a later start of a server. The kernel gives no other socket a port of this range."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
